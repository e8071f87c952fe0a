// Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"): momentum, then the nearest orthogonal matrix.
//
//   momentum:  m = momentum·m + g;  u = g + momentum·m with nesterov, else m
//   orthogonalize:  u = U·S·Vᵀ becomes about U·Vᵀ: singular values between 0.68 and 1.13, by Newton-Schulz iterations
//   apply:  p -= lr·( factor·u + weight_decay·p )
// u [R, C] bf16 (tensor cores) or f32; m f32 or bf16; p, low, g, scale and halting as in optimizer/flat_step.hpp.
// Each iteration is X = a·X + (b·A + c·A²)·X with A = X·Xᵀ (for R > C from the other side, so that A is the smaller one), a 3.4445,
// b -4.7750, c 2.0315. As written it is three products, 4·R·C·s + 2·s³ FLOPs with s = min(R, C). Where one side is at least twice the other, runs of
// up to three iterations are done on A alone and X is multiplied by all of them at once: 8·R·C·s + 28·s³ FLOPs for five iterations instead of
// 20·R·C·s + 10·s³ (Zhang et al. 2026, "Gram Newton-Schulz"). Large products whose result is symmetric do three quarters of it (symmetric_product.hpp).
#pragma once

#include "kernels/optimizer/flat_step.hpp"

namespace mylos::kernels {

struct MuonStep {
  FlatStep flat;
  float momentum = 0.95f;
  bool nesterov = true;
};

// operands.p gives the number of elements only; u [N]. u is not written when scale is NaN.
void muon_momentum(const Stream& stream, const MuonStep& step, const FlatOperands& operands, const Tensor& m,
                   const Tensor& u);

// In place; u [R, C], or [n, R, C]: n matrices side by side, which small ones need to fill a GPU. workspace (u8): orthogonalize_workspace
// bytes. A matrix of zeros stays one. FLOPs and bytes are of one matrix, as it is done but for symmetry.
std::int64_t orthogonalize_workspace(std::int64_t count, std::int64_t rows, std::int64_t columns, DType dtype);
void orthogonalize(const Stream& stream, const Tensor& u, int iterations, const Tensor& workspace);
double orthogonalize_flops(std::int64_t rows, std::int64_t columns, int iterations);
double orthogonalize_bytes(std::int64_t rows, std::int64_t columns, DType dtype, int iterations);

// u [N] stands in the place of operands.g.
void muon_apply(const Stream& stream, const FlatStep& step, const FlatOperands& operands, float factor);

}  // namespace mylos::kernels
