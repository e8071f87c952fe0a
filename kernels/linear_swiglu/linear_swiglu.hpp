// SwiGLU with the product before it, each way, in one op: what a feed-forward layer spends on passes over memory, a product's end can do.
//
//   forward    gate_up [T, 2F] = x [T, D] · wᵀ with w [2F, D]: rows [:F] of w are the gate's, [F:] up's;
//              out [T, F] = silu(gate) · up, of gate and up as gate_up has them (rounded to its dtype)
//   backward   dout [T, F] = dy [T, D] · w with w [D, F], the down projection's; dgate_up [T, 2F] = the gradient of gate_up (which may be dgate_up itself) for dout
//
// `apart` is linear_forward and swiglu_forward, linear_backward_input and swiglu_backward. `fused` is a product of our own for Hopper (bf16; D and F multiples of 8) that
// goes on from its sums, rounded as they would have been stored: the same bits but for the order of those sums. dout is not written then, and may be none.
// A block takes either, each way (ExecutionConfig). On an H200 fused is 1.03 to 1.05 of apart's speed backward and 0.98 to 1.03 of it forward at the sizes of an 8 B step,
// where the card is at its power limit, and 1.31 and 1.08 of it at those of a 134 M one: docs/performance.md.
// FLOPs 4·T·D·F forward, 2·T·D·F backward; bytes beside the product's own: apart 3·T·F·size and 5·T·F·size, fused T·F·size and 3·T·F·size.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels {

enum class LinearSwiglu { apart, fused };

// Whether `fused` takes a layer of these sizes on some device; and on this one.
constexpr bool fused_swiglu_takes(DType dtype, std::int64_t D, std::int64_t F) {
  return dtype == DType::bf16 && D % 8 == 0 && F % 8 == 0;
}
bool has_fused_swiglu(DType dtype, std::int64_t D, std::int64_t F);
// Whether `fused` is the faster one of T rows: backward where it has tiles for most of the card, forward where the product besides is too short to bring the card to its
// power limit.
bool fused_swiglu_forward_pays(DType dtype, std::int64_t T, std::int64_t D, std::int64_t F);
bool fused_swiglu_backward_pays(DType dtype, std::int64_t T, std::int64_t D, std::int64_t F);
// Whether `fused` takes these operands on this device.
bool can_fuse_swiglu(const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out);
bool can_fuse_swiglu_backward(const Tensor& dy, const Tensor& w, const Tensor& gate_up, const Tensor& dgate_up);
// workspace: matmul_workspace() bytes.
void linear_swiglu_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& workspace,
                           const Tensor& gate_up, const Tensor& out, LinearSwiglu how);
void linear_swiglu_backward(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& gate_up,
                            const Tensor& workspace, const Tensor& dout, const Tensor& dgate_up, LinearSwiglu how);

}  // namespace mylos::kernels
