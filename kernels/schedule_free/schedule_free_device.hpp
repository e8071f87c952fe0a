// The launches behind schedule_free.hpp; arguments are checked by the host file.
#pragma once

#include "kernels/schedule_free/schedule_free.hpp"

namespace mylos::kernels::device {
void schedule_free_average(const Stream& stream, float gamma, const Tensor& scale, const Tensor& sum,
                           const Tensor& average);
void schedule_free(const Stream& stream, const ScheduleFreeStep& step, float gamma, const FlatOperands& operands,
                   const Tensor& average, const Tensor& z, const Tensor& v);
void schedule_free_weights(const Stream& stream, double beta1, const Tensor& p, const Tensor& low, const Tensor& z,
                           const Tensor& x);
}  // namespace mylos::kernels::device
