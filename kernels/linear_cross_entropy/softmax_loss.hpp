// The pass over the logits of one chunk of tokens, between the products of linear_cross_entropy. Not for use outside
// this folder, but for its benchmark.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::detail {

// Logits [tokens, vocabulary], row-major with `stride` elements a row; each row starts at a multiple of 16 bytes.
struct LossRows {
  void* logits;
  DType dtype;
  std::int64_t tokens, vocabulary, stride;
  const std::int32_t* labels;  // [tokens]
  float* loss;                 // [tokens]
};

bool loss_on_gpu();
void softmax_loss(const Stream& stream, const LossRows& rows);
// The same, and every logit is replaced by grad_scale[0] · (its probability - 1 if it is the label's); 0 in ignored rows.
// NaN where the label is beyond the vocabulary, and everywhere if grad_scale is not finite.
void softmax_loss_gradient(const Stream& stream, const LossRows& rows, const float* grad_scale);

}  // namespace mylos::kernels::detail
