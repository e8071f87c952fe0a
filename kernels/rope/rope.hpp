// Rotary position embedding (Su et al. 2021) in the half-split form of Llama: for i < h/2
//   (x1, x2) = (x[i], x[i + h/2]);  y1 = x1·cos - x2·sin,  y2 = x2·cos + x1·sin,  angle = position · theta^(-2i/h).
// The angle, its cosine and the rotation are fp32 (the table is made in fp64 and rounded once).
//
//   x [T, N, h] rotated in place (strided in the first two dimensions: a window of the fused q|k|v projection; N = H +
//   K rotates queries and keys in one launch); table [P, h] f32: cos in [:, :h/2], sin in [:, h/2:]; positions [T] i32,
//   each in [0, P). bytes 2·T·N·h·size.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels {

enum class RopeDirection { forward, backward };  // backward rotates by the negative angle

void rope_table(const Stream& stream, double theta, const Tensor& table);
void rope(const Stream& stream, RopeDirection direction, const Tensor& table, const Tensor& positions, const Tensor& x);

}  // namespace mylos::kernels
