// The launches behind norm.hpp; arguments are checked by the host file.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

inline constexpr std::int64_t kSumBlocks = 1024;  // partial sums, one for each block of elements

void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result);
void sum(const Stream& stream, const Tensor& t, bool accumulate, const Tensor& workspace, const Tensor& result);
void clip_scale(const Stream& stream, const Tensor& squares, float max_norm, const Tensor& norm_and_scale);

}  // namespace mylos::kernels::device
