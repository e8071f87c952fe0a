// Sums that stay on the device: squared norm and clip factor of a whole tensor, loss of each sequence. Fixed order: equal
// bits in every run.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

// result[0] (f64) = sum over all i of t[i]², accumulated in fp64 blocks. t dense, f32 or bf16.
std::int64_t sum_workspace();  // bytes (u8)
void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result);

// result[n] (f64) = sum over i of t[n, i]; t dense [N, D], f32 or bf16; result [N]. The loss reducer: t is loss [B, S] f32.
// A sum depends on its row alone, so the loss of a step does not depend on how its sequences are split into batches.
void sum_rows(const Stream& stream, const Tensor& t, const Tensor& result);

// norm_and_scale [2] f32 = { sqrt(squares[0]), min(1, max_norm / (norm + 1e-6)) }; max_norm <= 0: scale 1.
// A norm that is not finite gives scale NaN, which tells adamw() to leave everything as it is. A scale that is NaN stays
// NaN, so that steps already queued behind a broken one change nothing either: the caller zeroes norm_and_scale at first.
void clip_scale(const Stream& stream, const Tensor& squares, float max_norm, const Tensor& norm_and_scale);

}  // namespace mylos::kernels
