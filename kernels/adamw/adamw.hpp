// AdamW (Loshchilov and Hutter 2019), fused over a flat buffer: one launch reads and writes each element once.
//
//   p [N]: bf16 or f32. low [N] u16 or none: with bf16 p, what makes the pair an exact fp32 master weight (see below).
//   g [N] f32 or bf16; m, v [N]: both f32, or both bf16 with stochastic rounding (Philox, Purpose::stochastic_rounding,
//   by element; fastest when first_index is a multiple of 8).
//   A bf16 p without low is rounded stochastically too when `stochastic_rounding`, else to nearest.
//   g is multiplied by scale[0] (f32 on the device: the clip factor; none: 1); a scale that is NaN leaves p, low, m and
//   v untouched.
//
//   m = b1·m + (1-b1)·g;  v = b2·v + (1-b2)·g²;  p -= lr·( (m/c1) / (sqrt(v/c2) + eps) + weight_decay·p )
//   with c = 1 - b^step. bytes: p, low, m, v read and written, g read.
//
// Split master: the model computes with p = the fp32 master rounded to nearest (ties away from zero), low holds the
// master's lower 16 bits. p was rounded up exactly when bit 15 of low is set, so master = ((p - (low >> 15)) << 16) |
// low, as integers.
#pragma once

#include <cstdint>

#include "tensor/function.hpp"
#include "tensor/runtime.hpp"

namespace mylos::kernels {

struct AdamWStep {
  float learning_rate;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.0f;
  std::int64_t step = 1;  // counts from 1; for bias correction and the random numbers
  std::uint64_t seed = 0;
  std::uint64_t first_index = 0;    // global index of element 0: random numbers do not depend on sharding
  bool stochastic_rounding = true;  // of a bf16 p without low
};

void adamw(const Stream& stream, const AdamWStep& step, const Tensor& g, const Tensor& scale, const Tensor& p,
           const Tensor& low, const Tensor& m, const Tensor& v);

// Splits exact fp32 master weights into p (bf16) and low (u16), and joins them again (tests, checkpoints).
void split_master(const Stream& stream, const Tensor& master, const Tensor& p, const Tensor& low);
void join_master(const Stream& stream, const Tensor& p, const Tensor& low, const Tensor& master);

}  // namespace mylos::kernels
