// What every fused optimizer update over a flat buffer shares: operands, hyperparameters and their checks.
//
//   g [N] f32 or bf16, read and multiplied by scale[0] (f32 on the device: the clip factor; none: 1). A scale that is NaN leaves
//   everything as it is, which is how a step that went wrong stops those queued behind it.
//   p [N] bf16 or f32; low [N] u16 or none: with bf16 p, what makes the pair an exact fp32 master weight (adamw.hpp).
//   A bf16 p without low is rounded stochastically when `stochastic_rounding`, else to nearest; bf16 state always is
//   rounded stochastically (Philox, Purpose::stochastic_rounding, by element: sharding does not change the numbers).
//   Fastest when first_index is a multiple of 8 and all addresses of 16 bytes. Errors name op, operand and what was found.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

struct FlatStep {
  float learning_rate;
  float weight_decay = 0.0f;
  std::int64_t step = 1;  // counts from 1; for bias correction and the random numbers
  std::uint64_t seed = 0;
  std::uint64_t first_index = 0;    // global index of element 0: random numbers do not depend on sharding
  bool stochastic_rounding = true;  // of a bf16 p without low
};

struct FlatOperands {
  Tensor g, scale, p, low;
};

namespace detail {
// The dtypes and sizes above; `op` begins the message.
void expect_flat_step(const char* op, const FlatStep& step, const FlatOperands& operands);
// State of the update: dense, f32 or bf16, as many elements as p.
void expect_state(const char* op, const char* name, const Tensor& t, const Tensor& p);
// A decay of a running mean: in [0, 1).
void expect_decay(const char* op, const char* name, double value);
}  // namespace detail

}  // namespace mylos::kernels
