// The head and the loss, forward alone and with gradients, at the default chunk and at others.
#include "kernels/linear_cross_entropy/linear_cross_entropy.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "benchmarks/kernels/bench_support.hpp"
#include "kernels/elementwise/elementwise.hpp"

namespace mylos {
namespace {

struct Shape {
  const char* name;
  std::int64_t tokens, width, vocabulary;
};
// A byte-level and a BPE vocabulary of small models on a CPU; Llama-3 8B on a GPU.
constexpr Shape kCpuShapes[] = {{"bytes", 4096, 256, 512}, {"bpe", 2048, 256, 32000}};
constexpr Shape kGpuShapes[] = {{"llama3_8b", 8192, 4096, 128256}, {"llama2_7b", 8192, 4096, 32000}};

void head(benchmark::State& state, Shape s, DType dtype, bool gradients, std::int64_t chunk) {
  const Stream stream;
  const bench::Owned x = bench::normal(stream, dtype, {s.tokens, s.width}, 1.0f, 1),
                     w = bench::normal(stream, dtype, {s.vocabulary, s.width}, 0.02f, 2);
  const bench::Owned labels = bench::empty(DType::i32, {s.tokens}), loss = bench::empty(DType::f32, {s.tokens});
  std::mt19937_64 generator(3);
  std::uniform_int_distribution<std::int32_t> pick(0, std::int32_t(s.vocabulary) - 1);
  std::vector<std::int32_t> picked(std::size_t(s.tokens), 0);
  for (std::int32_t& label : picked) label = pick(generator);
  upload(stream, picked.data(), labels.tensor.bytes(), labels.tensor);
  const bench::Owned workspace =
      bench::empty(DType::u8, {kernels::linear_cross_entropy_workspace(chunk, s.vocabulary, dtype)});
  const double product = 2.0 * double(s.tokens) * double(s.width) * double(s.vocabulary);
  state.counters["chunk"] = double(chunk);
  if (!gradients) {
    bench::timed(state, stream, product, [&] {
      kernels::linear_cross_entropy_forward(stream, x.tensor, w.tensor, labels.tensor, chunk, workspace.tensor,
                                            loss.tensor);
    });
    return;
  }
  const bench::Owned grad_scale = bench::empty(DType::f32, {1});
  kernels::fill(stream, 1.0 / double(s.tokens), grad_scale.tensor);
  const bench::Owned dx = bench::empty(dtype, {s.tokens, s.width}), dw = bench::empty(dtype, {s.vocabulary, s.width});
  bench::timed(state, stream, 3.0 * product, [&] {
    kernels::linear_cross_entropy_backward(stream, x.tensor, w.tensor, labels.tensor, grad_scale.tensor, false, chunk,
                                           workspace.tensor, loss.tensor, dx.tensor, dw.tensor);
  });
}

void add(const Shape& shape) {
  const std::int64_t usual = kernels::linear_cross_entropy_chunk(shape.tokens, shape.vocabulary);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool gradients : {false, true})
      for (const std::int64_t chunk :
           std::set<std::int64_t>{usual, std::max<std::int64_t>(usual / 4, 1), shape.tokens}) {
        const std::string name = "head/" + std::string(shape.name) + "/" + std::string(name_of(dtype)) +
                                 (gradients ? "/gradients" : "/forward") + "/chunk" + std::to_string(chunk);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) {
          head(s, shape, dtype, gradients, chunk);
        })->UseRealTime();
      }
}

void add_all() {
  if (device_info().is_gpu)
    for (const Shape& shape : kGpuShapes) add(shape);
  else
    for (const Shape& shape : kCpuShapes) add(shape);
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) { return mylos::bench::main(argc, argv, mylos::add_all); }
