// Causal attention, forward and backward, on windows of a fused q|k|v buffer as the model uses it; with and without
// documents.
#include "kernels/attention/attention.hpp"

#include <string>
#include <vector>

#include "benchmarks/kernels/bench_support.hpp"

namespace mylos {
namespace {

struct Shape {
  const char* name;
  kernels::AttentionShape extents;
};
// Small models and one long sequence on a CPU; an 8B block and a 125M block on a GPU.
constexpr Shape kCpuShapes[] = {{"s512_h12_64", {4, 512, 12, 12, 64}},
                                {"s512_h8_2_64", {4, 512, 8, 2, 64}},
                                {"s2048_h4_1_128", {1, 2048, 4, 1, 128}}};
constexpr Shape kGpuShapes[] = {{"llama3_8b", {2, 4096, 32, 8, 128}}, {"125m", {16, 1024, 12, 12, 64}}};

enum class Pass { forward, backward, backward_any_order };  // the last gives determinism up
constexpr const char* kPassNames[] = {"/forward", "/backward", "/backward_any_order"};

// documents: how many equal ones a sequence holds. FLOPs are those of one document a sequence over their number.
void attention(benchmark::State& state, const Shape& shape, DType dtype, Pass pass, std::int64_t documents) {
  const kernels::AttentionShape& s = shape.extents;
  const kernels::AttentionOptions options{.deterministic = pass != Pass::backward_any_order};
  const Stream stream;
  const std::int64_t heads = s.heads + 2 * s.kv_heads;
  const bench::Owned qkv = bench::normal(stream, dtype, {s.batch, s.sequence, heads, s.head_size}, 1.0f, 1);
  const bench::Owned dout = bench::normal(stream, dtype, {s.batch, s.sequence, s.heads, s.head_size}, 1.0f, 2);
  const bench::Owned out = bench::empty(dtype, {s.batch, s.sequence, s.heads, s.head_size});
  const bench::Owned gradient = bench::empty(dtype, {s.batch, s.sequence, heads, s.head_size});
  const bench::Owned lse = bench::empty(DType::f32, {s.batch, s.heads, s.sequence}),
                     starts = bench::empty(DType::i32, {s.batch, s.sequence});
  std::vector<std::int32_t> start(std::size_t(s.batch * s.sequence));
  const std::int64_t length = s.sequence / documents;
  for (std::size_t i = 0; i < start.size(); ++i)
    start[i] = std::int32_t(std::int64_t(i) % s.sequence / length * length);
  upload(stream, start.data(), starts.tensor.bytes(), starts.tensor);
  const Tensor document_start = documents == 1 ? Tensor{} : starts.tensor;

  const auto q = [&](const Tensor& t) { return t.slice(2, 0, s.heads); };
  const auto k = [&](const Tensor& t) { return t.slice(2, s.heads, s.heads + s.kv_heads); };
  const auto v = [&](const Tensor& t) { return t.slice(2, s.heads + s.kv_heads, heads); };
  const bench::Owned space = bench::empty(DType::u8, {kernels::attention_workspace(s, dtype, false)});
  const bench::Owned backward_space = bench::empty(DType::u8, {kernels::attention_workspace(s, dtype, true, options)});
  const auto forward = [&] {
    kernels::attention_forward(stream, q(qkv.tensor), k(qkv.tensor), v(qkv.tensor), document_start, space.tensor,
                               out.tensor, lse.tensor);
  };
  const double flops = 2.0 * double(s.batch * s.heads) * double(s.sequence) * double(s.sequence) * double(s.head_size) /
                       double(documents);
  if (pass == Pass::forward) {
    bench::timed(state, stream, flops, forward);
    return;
  }
  forward();
  bench::timed(state, stream, 2.5 * flops, [&] {
    kernels::attention_backward(stream, q(qkv.tensor), k(qkv.tensor), v(qkv.tensor), document_start, out.tensor,
                                lse.tensor, dout.tensor, backward_space.tensor, q(gradient.tensor), k(gradient.tensor),
                                v(gradient.tensor), options);
  });
}

void add(const Shape& shape) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::backward_any_order})
      for (const std::int64_t documents : {1, 4}) {
        if (pass == Pass::backward_any_order && !device_info().is_gpu) continue;
        const std::string name = "attention/" + std::string(shape.name) + "/" + std::string(name_of(dtype)) +
                                 kPassNames[int(pass)] + "/documents" + std::to_string(documents);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) {
          attention(s, shape, dtype, pass, documents);
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
