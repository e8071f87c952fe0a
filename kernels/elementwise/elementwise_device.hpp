// The launches behind elementwise.hpp; arguments are checked by the host file.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

void convert(const Stream& stream, const Tensor& source, const Tensor& destination);
void add(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum);
void fill(const Stream& stream, double value, const Tensor& t);

}  // namespace mylos::kernels::device
