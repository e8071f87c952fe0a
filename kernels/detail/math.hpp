// Elementary functions that a CPU compiler can vectorise; on a GPU they are CUDA's own.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/function.hpp"

namespace mylos::kernels {

// e^x in fp32 within 2 units in the last place; inputs outside [-87, 88.7] are clamped, NaN stays NaN.
// Range reduction x = n·ln 2 + r with ln 2 in two parts (Cody and Waite 1980), then the Taylor series of e^r to degree
// 7: its remainder on |r| <= ln 2 / 2 is below 6e-9.
MYLOS_FUNCTION float exp_f32(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  x = x > 88.7f ? 88.7f : x;
  x = x < -87.0f ? -87.0f : x;
  constexpr float kShift = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the low mantissa bits
  const float shifted = x * 1.44269504f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // Two factors, since 2^128 is not a number of its own.
  const std::int32_t e = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kShift);
  const std::int32_t half = e >> 1;
  return p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((e - half + 127) << 23);
#endif
}

// 1 / (1 + e^-x)
MYLOS_FUNCTION float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }

}  // namespace mylos::kernels
