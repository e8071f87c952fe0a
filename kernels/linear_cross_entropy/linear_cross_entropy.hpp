// The head and the loss as one op: logits = x · wᵀ, loss_t = logsumexp(logits_t) - logits_t[label_t], by chunks of
// tokens, so that T x V memory is never used; the backward pass of a chunk follows its forward pass while its logits
// are at hand.
//
//   x [T, D], w [V, D] (bf16 or f32); labels [T] i32, negative: ignored (no loss, no gradient); loss [T] f32, 0 where
//   ignored. A label of V or more: the token's loss and gradients are NaN, which the optimizer's halt sees.
//   Logits are kept in x's dtype; softmax and loss in fp32.
//   FLOPs 2·T·V·D forward, 6·T·V·D with gradients.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

// Tokens of one chunk, chosen so that the logits of a chunk stay small beside x; at most T.
std::int64_t linear_cross_entropy_chunk(std::int64_t tokens, std::int64_t vocabulary);
// Bytes (u8): logits of one chunk and what the products need.
std::int64_t linear_cross_entropy_workspace(std::int64_t chunk, std::int64_t vocabulary, DType dtype);

// Only the loss (evaluation).
void linear_cross_entropy_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& labels,
                                  std::int64_t chunk, const Tensor& workspace, const Tensor& loss);

// Loss and gradients of grad_scale · sum_t loss_t: dx [T, D] (x's dtype, overwritten; may be x itself), dw [V, D] f32
// or bf16, added to when accumulate, else overwritten. grad_scale [1] f32 is 1 / (valid tokens of the whole step, all
// ranks), on the device, so that a captured step can be replayed with another value. The host cannot check it: if it is
// not finite (a step without a valid token), all gradients are NaN, those of ignored tokens too.
void linear_cross_entropy_backward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& labels,
                                   const Tensor& grad_scale, bool accumulate, std::int64_t chunk,
                                   const Tensor& workspace, const Tensor& loss, const Tensor& dx, const Tensor& dw);

}  // namespace mylos::kernels
