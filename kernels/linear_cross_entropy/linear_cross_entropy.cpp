#include "kernels/linear_cross_entropy/linear_cross_entropy.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"
#include "kernels/matmul/matmul.hpp"

namespace mylos::kernels {
namespace {

constexpr const char* kOp = "linear_cross_entropy";
constexpr std::int64_t kAlignment = 256;

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Rows start at multiples of 128 bytes, whatever the vocabulary: products and the softmax pass then move whole packs.
std::int64_t row_stride(std::int64_t vocabulary, DType dtype) { return rounded_up(vocabulary, 128 / size_of(dtype)); }

std::int64_t logit_bytes(std::int64_t chunk, std::int64_t vocabulary, DType dtype) {
  return rounded_up(chunk * row_stride(vocabulary, dtype) * size_of(dtype), kAlignment);
}

struct Head {
  const Stream& stream;
  Tensor x, w, labels, loss, logits, claims, workspace;
  std::int64_t tokens, vocabulary, chunk;

  // Before the first chunk: the workspace holds whatever others left there. Every pass leaves 0 for the next chunk's.
  void clear_claims() const { fill_zero(stream, claims); }
  // The logits of tokens [begin, end), and what the softmax pass needs of them.
  Tensor product(std::int64_t begin, std::int64_t end) const {
    const Tensor part = logits.slice(0, 0, end - begin).slice(1, 0, vocabulary);
    linear_forward(stream, x.slice(0, begin, end), w, workspace, part);
    return part;
  }
  detail::LossRows rows(const Tensor& part, std::int64_t begin) const {
    return {part.data(),
            part.dtype(),
            part.extent(0),
            vocabulary,
            part.stride(0),
            labels.as<std::int32_t>() + begin,
            loss.as<float>() + begin,
            claims.as<std::int32_t>()};
  }
};

Head checked(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& labels, std::int64_t chunk,
             const Tensor& workspace, const Tensor& loss) {
  expect_shape(kOp, "x", x, {-1, -1});
  const std::int64_t tokens = x.extent(0), width = x.extent(1);
  const DType dtype = x.dtype();
  check(dtype == DType::f32 || dtype == DType::bf16, "{}: x is {}; it must be f32 or bf16", kOp, x.describe());
  expect(kOp, "w", w, dtype, {-1, width});
  const std::int64_t vocabulary = w.extent(0);
  check(tokens >= 1 && width >= 1 && vocabulary >= 1, "{}: x {} and w {} must not be empty", kOp, x.describe(),
        w.describe());
  expect(kOp, "labels", labels, DType::i32, {tokens});
  expect(kOp, "loss", loss, DType::f32, {tokens});
  check(chunk >= 1, "{}: a chunk of {} tokens; it has at least one (linear_cross_entropy_chunk gives a good one)", kOp,
        chunk);
  check(chunk <= INT32_MAX, "{}: a chunk of {} tokens; it has at most {}", kOp, chunk, INT32_MAX);
  chunk = std::min(chunk, tokens);
  expect(kOp, "workspace", workspace, DType::u8, {-1});
  const std::int64_t need = linear_cross_entropy_workspace(chunk, vocabulary, dtype);
  check(workspace.extent(0) >= need, "{}: the workspace has {} bytes; {} tokens a chunk and a vocabulary of {} need {}",
        kOp, workspace.extent(0), chunk, vocabulary, need);
  const Tensor logits(workspace.data(), dtype, {chunk, row_stride(vocabulary, dtype)});
  const std::int64_t claims_at = logit_bytes(chunk, vocabulary, dtype), rest_at = claims_at + kAlignment;
  const Tensor claims(static_cast<char*>(workspace.data()) + claims_at, DType::i32, {1}),
      rest = workspace.slice(0, rest_at, workspace.extent(0));
  return {stream, x, w, labels, loss, logits, claims, rest, tokens, vocabulary, chunk};
}

}  // namespace

std::int64_t linear_cross_entropy_chunk(std::int64_t tokens, std::int64_t vocabulary) {
  check(tokens >= 1 && vocabulary >= 1, "{}: {} tokens and a vocabulary of {}; both are at least 1", kOp, tokens,
        vocabulary);
  // Logits of a chunk: 2 GiB in bf16 on a GPU; what a core's cache holds on a CPU (512 words, width 256, f32: 16 %
  // faster in chunks of 512 tokens than of 2048). But each chunk reads and writes the gradient of w [V, D] once more,
  // which must not show beside its products: at least V tokens, or 1024.
  const bool gpu = detail::loss_on_gpu();
  const std::int64_t elements = std::int64_t(1) << (gpu ? 30 : 18);
  const std::int64_t limit =
      std::max(elements / vocabulary, gpu ? std::int64_t(1024) : std::min<std::int64_t>(vocabulary, 1024));
  const std::int64_t chunks = (tokens + limit - 1) / limit;
  return std::min(tokens, rounded_up((tokens + chunks - 1) / chunks, 64));
}

std::int64_t linear_cross_entropy_workspace(std::int64_t chunk, std::int64_t vocabulary, DType dtype) {
  return logit_bytes(chunk, vocabulary, dtype) + kAlignment + matmul_workspace();
}

void linear_cross_entropy_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& labels,
                                  std::int64_t chunk, const Tensor& workspace, const Tensor& loss) {
  const Head head = checked(stream, x, w, labels, chunk, workspace, loss);
  head.clear_claims();
  for (std::int64_t begin = 0; begin < head.tokens; begin += head.chunk) {
    const Tensor logits = head.product(begin, std::min(begin + head.chunk, head.tokens));
    detail::softmax_loss(stream, head.rows(logits, begin));
  }
}

void linear_cross_entropy_backward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& labels,
                                   const Tensor& grad_scale, bool accumulate, std::int64_t chunk,
                                   const Tensor& workspace, const Tensor& loss, const Tensor& dx, const Tensor& dw) {
  const Head head = checked(stream, x, w, labels, chunk, workspace, loss);
  expect(kOp, "grad_scale", grad_scale, DType::f32, {1});
  expect(kOp, "dx", dx, x.dtype(), {head.tokens, x.extent(1)});
  expect_shape(kOp, "dw", dw, {head.vocabulary, x.extent(1)});
  head.clear_claims();
  for (std::int64_t begin = 0; begin < head.tokens; begin += head.chunk) {
    const std::int64_t end = std::min(begin + head.chunk, head.tokens);
    const Tensor dlogits = head.product(begin, end);
    detail::softmax_loss_gradient(stream, head.rows(dlogits, begin), grad_scale.as<float>());
    // dw first: it reads x, which dx may overwrite.
    linear_backward_weight(stream, dlogits, x.slice(0, begin, end), accumulate || begin > 0, head.workspace, dw);
    linear_backward_input(stream, dlogits, w, false, head.workspace, dx.slice(0, begin, end));
  }
}

}  // namespace mylos::kernels
