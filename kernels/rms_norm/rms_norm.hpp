// RMSNorm (Zhang and Sennrich 2019): y = x · rstd · w with rstd = 1 / sqrt(mean(x²) + eps), computed in fp32.
//
//   x [N, D], or [T, H, h] for norms over heads (a window of a fused projection may be strided in all but the last
//   dimension; rows are N = T·H, in row-major order); w [D] in x's dtype or f32; y like x (may be x itself); rstd [N]
//   f32. FLOPs 4·N·D; bytes forward (2·N·D)·size, fused (4·N·D)·size, backward (3 or 4)·N·D·size.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

// rstd may be none (evaluation).
void rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                      const Tensor& rstd);

// sum = x + residual (rounded to the storage dtype), y = norm(sum). All dense [N, D]; sum may be x or residual.
// Equal to the bit to add() followed by rms_norm_forward(sum).
void residual_rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& w,
                               float eps, const Tensor& sum, const Tensor& y, const Tensor& rstd);

// y from x and a saved rstd: what recomputation uses; the same bits as the forward pass gave.
void rms_norm_apply(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& rstd, const Tensor& y);

// dx = dresidual + rstd·(dy·w - x·rstd²·mean(dy·w·x)), dw (+)= sum over rows of dy·x·rstd.
// dresidual (the gradient that flows past the norm) may be none; dx may be dy or dresidual. dw [D] f32 or bf16: added
// to when accumulate, else overwritten; summed in fp32 in a fixed order. workspace: rms_norm_backward_workspace bytes
// (u8).
std::int64_t rms_norm_backward_workspace(std::int64_t rows, std::int64_t width);
void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                       const Tensor& dresidual, bool accumulate, const Tensor& workspace, const Tensor& dx,
                       const Tensor& dw);

}  // namespace mylos::kernels
