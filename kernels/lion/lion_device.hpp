// The launch behind lion.hpp; arguments are checked by the host file.
#pragma once

#include "kernels/lion/lion.hpp"

namespace mylos::kernels::device {
void lion(const Stream& stream, const LionStep& step, const FlatOperands& operands, const Tensor& m);
}
