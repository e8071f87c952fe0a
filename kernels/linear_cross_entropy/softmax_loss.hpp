// The pass over the logits of one chunk of tokens, between the products of linear_cross_entropy. Not for use outside
// this folder, but for its benchmarks and its test.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/function.hpp"
#include "tensor/runtime.hpp"

namespace mylos::kernels::detail {

// Logits [tokens, vocabulary], row-major with `stride` elements a row; each row starts at a multiple of 16 bytes.
struct LossRows {
  void* logits;
  DType dtype;
  std::int64_t tokens, vocabulary, stride;
  const std::int32_t* labels;  // [tokens]
  float* loss;                 // [tokens]
  // A word to count rows in, which GPU teams take as they get done with others: 0 before a call and again after it, so
  // calls that follow each other on a stream can share one.
  std::int32_t* claims;
};

bool loss_on_gpu();
void softmax_loss(const Stream& stream, const LossRows& rows);
// The same, and every logit is replaced by grad_scale[0] · (its probability - 1 if it is the label's); 0 in ignored rows.
// NaN where the label is beyond the vocabulary, and everywhere if grad_scale is not finite.
void softmax_loss_gradient(const Stream& stream, const LossRows& rows, const float* grad_scale);

// Of the row's gradient: NaN from a number that is not finite or a label beyond the vocabulary, so that it ends up in the
// gradients' norm, which the host looks at.
MYLOS_FUNCTION float row_scale(const float* grad_scale, std::int32_t label, std::int64_t vocabulary) {
  const float scale = *grad_scale;
  return label < vocabulary && std::isfinite(scale) ? scale : NAN;
}

}  // namespace mylos::kernels::detail
