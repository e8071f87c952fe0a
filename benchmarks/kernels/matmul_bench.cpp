// The three products of a linear layer, for each provider that this build and device have.
#include "kernels/matmul/matmul.hpp"

#include "benchmarks/kernels/bench_support.hpp"

namespace mylos {
namespace {

using kernels::MatmulProvider;
using kernels::Transpose;

struct Layer {
  const char* name;
  std::int64_t tokens, in, out;
};
// A small model on a CPU, and the four layers of an 8B block on a GPU.
constexpr Layer kCpuLayers[] = {{"256to768", 2048, 256, 768}, {"1024to1024", 4096, 1024, 1024}, {"odd", 333, 129, 257}};
constexpr Layer kGpuLayers[] = {{"qkv", 8192, 4096, 6144},
                                {"output", 8192, 4096, 4096},
                                {"gate_up", 8192, 4096, 28672},
                                {"down", 8192, 14336, 4096}};
constexpr std::pair<MatmulProvider, const char*> kProviders[] = {{MatmulProvider::reference, "reference"},
                                                                 {MatmulProvider::blas, "blas"},
                                                                 {MatmulProvider::onednn, "onednn"},
                                                                 {MatmulProvider::cublaslt, "cublaslt"}};

enum class Pass { forward, input, weight };

void product(benchmark::State& state, Layer s, Pass pass, MatmulProvider provider, DType dtype) {
  const Stream stream;
  const bench::Owned x = bench::normal(stream, dtype, {s.tokens, s.in}, 1.0f, 1),
                     w = bench::normal(stream, dtype, {s.out, s.in}, 0.02f, 2),
                     y = bench::normal(stream, dtype, {s.tokens, s.out}, 1.0f, 3);
  const bench::Owned workspace = bench::empty(DType::u8, {kernels::matmul_workspace()});
  bench::timed(state, stream, 2.0 * double(s.tokens) * double(s.in) * double(s.out), [&] {
    switch (pass) {
      case Pass::forward:
        return kernels::matmul(stream, x.tensor, w.tensor, {.b = Transpose::yes, .provider = provider},
                               workspace.tensor, y.tensor);
      case Pass::input:
        return kernels::matmul(stream, y.tensor, w.tensor, {.provider = provider}, workspace.tensor, x.tensor);
      // alpha 0.001 keeps a sum that grows in every iteration finite.
      case Pass::weight:
        return kernels::matmul(stream, y.tensor, x.tensor,
                               {.a = Transpose::yes, .alpha = 0.001f, .beta = 1.0f, .provider = provider},
                               workspace.tensor, w.tensor);
    }
  });
}

void add(const Layer& layer) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [provider, provider_name] : kProviders) {
      if (!kernels::has_provider(provider, dtype)) continue;
      for (const auto& [pass, pass_name] :
           {std::pair{Pass::forward, "forward"}, {Pass::input, "input"}, {Pass::weight, "weight"}}) {
        const std::string name = "matmul/" + std::string(layer.name) + "/" + pass_name + "/" +
                                 std::string(name_of(dtype)) + "/" + provider_name;
        benchmark::RegisterBenchmark(name.c_str(), [=, p = provider, q = pass](benchmark::State& s) {
          product(s, layer, q, p, dtype);
        })->UseRealTime();
      }
    }
}

void add_all() {
  if (device_info().is_gpu)
    for (const Layer& layer : kGpuLayers) add(layer);
  else
    for (const Layer& layer : kCpuLayers) add(layer);
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) { return mylos::bench::main(argc, argv, mylos::add_all); }
