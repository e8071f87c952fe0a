// Schedule-Free AdamW (Defazio et al. 2024, "The Road Less Scheduled", algorithm 1), fused over a flat buffer: one launch reads and
// writes each element once. Operands and halting as in optimizer/flat_step.hpp; the weights p are y, where gradients are taken.
//
//   z [N]: the fast sequence, as exact as the weights: f32 beside f32 p or p with low, else bf16. v [N] f32 or bf16.
//   gamma = lr·sqrt(1 - b2^step);  v = b2·v + (1-b2)·g²;  d = g / (sqrt(v) + eps) + weight_decay·y
//   z' = z - gamma·d;  x' = (1-c)·x + c·z';  y' = (1-b1)·z' + b1·x',   with c = gamma² / (sum of gamma² so far)
// x is not stored: x = (y - (1-b1)·z) / b1 (hence b1 > 0), so that y' = y + c·(z - y) - gamma·(1 - b1 + b1·c)·d.
// bytes: p, low, z, v read and written, g read.
#pragma once

#include "kernels/optimizer/flat_step.hpp"

namespace mylos::kernels {

struct ScheduleFreeStep {
  FlatStep flat;
  // In double, since 1 - 0.999f is off by 1e-5.
  double beta1 = 0.9;
  double beta2 = 0.999;
  float eps = 1e-8f;
};

// sum [1] f64 += gamma²; average [1] f32 = c of this step (0 while sum is 0). A scale that is NaN leaves both as they are.
// Once a step, before schedule_free() of its ranges.
void schedule_free_average(const Stream& stream, const ScheduleFreeStep& step, const Tensor& scale, const Tensor& sum,
                           const Tensor& average);

void schedule_free(const Stream& stream, const ScheduleFreeStep& step, const FlatOperands& operands,
                   const Tensor& average, const Tensor& z, const Tensor& v);

// x [N] = (y - (1-b1)·z) / b1 in p's dtype, to nearest; x may be p. low none: y is p as it stands.
void schedule_free_weights(const Stream& stream, double beta1, const Tensor& p, const Tensor& low, const Tensor& z,
                           const Tensor& x);

}  // namespace mylos::kernels
