// The first half of a feed-forward layer in one op: gate and up projections, and SwiGLU of them.
//
//   gate_up [T, 2F] = x [T, D] · wᵀ with w [2F, D]: rows [:F] of w are the gate's, [F:] up's;
//   out [T, F] = silu(gate) · up, of gate and up as gate_up has them (rounded to its dtype): the same as linear_forward and swiglu_forward.
// `apart` is these two; `fused` a product of our own for Hopper (bf16; D and F multiples of 8) that computes a tile of both projections together and writes all
// three from its sums, so that nothing is read again. The model takes them apart: what fusing brings to a step has not been measured.
// FLOPs 4·T·D·F; bytes beside the product's own: apart 3·T·F·size, fused T·F·size.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels {

enum class LinearSwiglu { apart, fused };

// Whether `fused` takes these shapes on this device.
bool can_fuse_swiglu(const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out);
// workspace: matmul_workspace() bytes.
void linear_swiglu_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& workspace,
                           const Tensor& gate_up, const Tensor& out, LinearSwiglu how);

}  // namespace mylos::kernels
