// Sums over whole tensors that stay on the device: squared norm, clip factor, loss. Fixed order: equal bits in every run.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

// result[0] (f64) = sum over all i of t[i]², accumulated in fp64 blocks. t dense, f32 or bf16.
std::int64_t sum_workspace();  // bytes (u8)
void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result);

// result[0] (f64) (+)= sum over all i of t[i]. The loss reducer: t is loss [T] f32.
void sum(const Stream& stream, const Tensor& t, bool accumulate, const Tensor& workspace, const Tensor& result);

// norm_and_scale [2] f32 = { sqrt(squares[0]), min(1, max_norm / (norm + 1e-6)) }; max_norm <= 0: scale 1.
// A norm that is not finite gives scale NaN, which tells adamw() to leave everything as it is. A scale that is NaN stays
// NaN, so that steps already queued behind a broken one change nothing either: the caller zeroes norm_and_scale at first.
void clip_scale(const Stream& stream, const Tensor& squares, float max_norm, const Tensor& norm_and_scale);

}  // namespace mylos::kernels
