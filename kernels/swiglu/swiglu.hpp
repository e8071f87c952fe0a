// SwiGLU (Shazeer 2020): out = silu(gate) · up, silu(g) = g / (1 + exp(-g)), in fp32.
//
//   gate_up [T, 2F]: gate in [:, :F], up in [:, F:]; out, dout [T, F]; dgate_up [T, 2F] (may be gate_up itself).
//   bytes forward 3·T·F·size, backward 5·T·F·size.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels {

void swiglu_forward(const Stream& stream, const Tensor& gate_up, const Tensor& out);
// dgate = dout·up·(s + gate·s·(1 - s)), dup = dout·gate·s with s = sigmoid(gate).
void swiglu_backward(const Stream& stream, const Tensor& gate_up, const Tensor& dout, const Tensor& dgate_up);

}  // namespace mylos::kernels
