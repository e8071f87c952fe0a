// The launch behind sgd.hpp; arguments are checked by the host file.
#pragma once

#include "kernels/sgd/sgd.hpp"

namespace mylos::kernels::device {
void sgd(const Stream& stream, const SgdStep& step, const FlatOperands& operands, const Tensor& m);
}
