// The launches behind norm.hpp; arguments are checked by the host file.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

// Partial sums, one for each block of elements: four teams for each of an H200's 132 multiprocessors.
inline constexpr std::int64_t kSumBlocks = 528;

void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result);
void sum_rows(const Stream& stream, const Tensor& t, const Tensor& result);
void clip_scale(const Stream& stream, const Tensor& squares, float max_norm, const Tensor& norm_and_scale);

}  // namespace mylos::kernels::device
