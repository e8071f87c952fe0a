// The head and the loss as one op, forward alone and with gradients, at the chunk that the model takes. FLOPs:
// kernels/linear_cross_entropy/linear_cross_entropy.hpp.
#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/words.hpp"
#include "kernels/linear_cross_entropy/linear_cross_entropy.hpp"
#include "kernels/matmul/matmul.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;
constexpr std::int64_t kTokens = 4;  // that are checked

// Losses of the first tokens from logits by the portable product.
std::vector<double> reference(Pool& p, const Tensor& x, const Tensor& w, const std::vector<std::int32_t>& labels,
                              const Tensor& logits, const Tensor& work) {
  k::matmul(p.stream(), x.slice(0, 0, kTokens), w, {.b = k::Transpose::yes, .provider = k::MatmulProvider::reference},
            work, logits);
  const std::vector<double> z = values(p.stream(), logits);
  const std::int64_t V = w.extent(0);
  std::vector<double> losses;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    double sum = 0;
    for (std::int64_t v = 0; v < V; ++v) sum += std::exp(z[std::size_t(t * V + v)]);
    losses.push_back(std::log(sum) - z[std::size_t(t * V + labels[std::size_t(t)])]);
  }
  return losses;
}

Set head(Pool& p, const Preset& s, DType dtype, bool gradients) {
  const std::int64_t T = s.tokens, D = s.dim, V = s.vocabulary, chunk = k::linear_cross_entropy_chunk(T, V);
  const std::vector<std::int32_t> drawn = draw(T, V, Words::uniform);
  // Logits of about one.
  const Tensor x = p.take(dtype, {T, D}), w = p.normal(dtype, {V, D}, float(1 / std::sqrt(double(D)))),
               labels = p.integers(drawn), loss = p.take(DType::f32, {T}), logits = p.take(DType::f32, {kTokens, V}),
               work = p.take(DType::u8,
                             {std::max(k::linear_cross_entropy_workspace(chunk, V, dtype), k::matmul_workspace())}),
               scale = p.filled(DType::f32, {1}, 1 / double(T));
  Tensor dx, dw;
  if (gradients) dx = p.take(dtype, {T, D}), dw = p.take(dtype, {V, D});
  const Call call = [=, &p] {
    if (gradients)
      k::linear_cross_entropy_backward(p.stream(), x, w, labels, scale, false, chunk, work, loss, dx, dw);
    else
      k::linear_cross_entropy_forward(p.stream(), x, w, labels, chunk, work, loss);
  };
  return {
      call, [=, &p]() -> Check {
        call();
        const std::vector<double> got = values(p.stream(), loss.slice(0, 0, kTokens)),
                                  want = reference(p, x, w, drawn, logits, work);
        Worst worst(1);
        for (std::size_t t = 0; t < got.size(); ++t) worst.add(got[t], want[t]);
        return {worst.error(), dtype == DType::bf16 ? 1e-2 : 2e-3, "the portable product and double, loss of 4 tokens"};
      }};
}

}  // namespace

void add_head(Cases& cases, const Preset& s, DType dtype) {
  const double product = 2.0 * double(s.tokens) * double(s.dim) * double(s.vocabulary);
  for (const bool gradients : {false, true})
    cases.push_back({.name = op_name(s, gradients ? "head_backward" : "head_forward", dtype),
                     .component = "forward",
                     .dtype = std::string(name_of(dtype)),
                     .work = {.flops = (gradients ? 3 : 1) * product,
                              .items = double(s.tokens),
                              .item_units = "tokens",
                              .source = "kernels/linear_cross_entropy/linear_cross_entropy.hpp"},
                     .make = [=](Pool& p) { return head(p, s, dtype, gradients); }});
}

}  // namespace mylos::bench
