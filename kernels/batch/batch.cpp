#include "kernels/batch/batch.hpp"

#include <utility>

#include "kernels/batch/batch_device.hpp"
#include "kernels/detail/checks.hpp"

namespace mylos::kernels {

void widen_batch(const Stream& stream, const PackedBatch& packed, const Tensor& tokens, const Tensor& labels,
                 const Tensor& positions, const Tensor& document_start) {
  constexpr const char* kOp = "widen_batch";
  expect_shape(kOp, "tokens", tokens, {-1, -1});
  const std::int64_t B = tokens.extent(0), S = tokens.extent(1), words = (S + 1 + 31) / 32;
  const DType dtype = packed.tokens.dtype();
  check(dtype == DType::u16 || dtype == DType::u32, "{}: packed.tokens is {}; it must be u16 or u32", kOp,
        packed.tokens.describe());
  expect(kOp, "packed.tokens", packed.tokens, dtype, {B, S + 1});
  expect(kOp, "packed.begins", packed.begins, DType::u32, {B, words});
  expect(kOp, "packed.ignored", packed.ignored, DType::u32, {B, words});
  const std::pair<const char*, const Tensor*> results[] = {
      {"tokens", &tokens}, {"labels", &labels}, {"positions", &positions}, {"document_start", &document_start}};
  for (const auto& [name, t] : results) {
    expect(kOp, name, *t, DType::i32, {B, S});
    expect_dense(kOp, name, *t);
  }
  for (const Tensor* t : {&packed.tokens, &packed.begins, &packed.ignored}) expect_dense(kOp, "packed", *t);
  if (B > 0 && S > 0) device::widen_batch(stream, packed, tokens, labels, positions, document_start);
}

}  // namespace mylos::kernels
