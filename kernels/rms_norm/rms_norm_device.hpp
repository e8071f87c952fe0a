// The launches behind rms_norm.hpp; arguments are checked by the host file.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

// residual and sum may be none (both or neither); rstd may be none.
void rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& w, float eps,
                      const Tensor& sum, const Tensor& y, const Tensor& rstd);
void rms_norm_apply(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& rstd, const Tensor& y);
// Blocks of rows whose parts of dw are summed on their own.
std::int64_t rms_norm_blocks(std::int64_t rows);
void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                       const Tensor& dresidual, bool accumulate, const Tensor& workspace, const Tensor& dx,
                       const Tensor& dw);

}  // namespace mylos::kernels::device
