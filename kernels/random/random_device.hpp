// The launch behind random.hpp; arguments are checked by the host file.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

void random_normal(const Stream& stream, std::uint64_t seed, std::uint64_t first_index, float std_dev, const Tensor& t);

}  // namespace mylos::kernels::device
