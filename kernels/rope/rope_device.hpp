// The launches behind rope.hpp; arguments are checked by the host file.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

void rope_table(const Stream& stream, double theta, const Tensor& table);
void rope(const Stream& stream, bool backward, const Tensor& table, const Tensor& positions, const Tensor& x);

}  // namespace mylos::kernels::device
