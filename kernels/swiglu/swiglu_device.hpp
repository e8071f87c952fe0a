// The launches behind swiglu.hpp; arguments are checked by the host file.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

void swiglu_forward(const Stream& stream, const Tensor& gate_up, const Tensor& out);
void swiglu_backward(const Stream& stream, const Tensor& gate_up, const Tensor& dout, const Tensor& dgate_up);

}  // namespace mylos::kernels::device
