// Exponentials that a CPU compiler can vectorise, one polynomial for all of them; on a GPU they are CUDA's own.
//
// 2^x = 2^n · 2^f with n = round(x) and |f| <= 1/2: 2^f is the degree-6 Chebyshev interpolant (its own error 2.5e-9), 2^n is
// built in the exponent. e^x comes to it by n = round(x · log2(e)), r = x - n·ln 2 with ln 2 in two parts (Cody and
// Waite 1980).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tensor/function.hpp"

namespace mylos::kernels {

// a * b + c, rounded once where the processor can: GCC before 14 takes -ffp-contract=on for off.
MYLOS_FUNCTION float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return fmaf(a, b, c);
#elif defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

inline constexpr float kRoundingShift =
    12582912.0f;  // 1.5 · 2^23: adding it leaves the nearest integer in the low bits

// 2^n · 2^f for shifted = n + kRoundingShift, -126 <= n <= 128 (2^128 is inf), |f| <= 1/2. V is float or a GCC vector of floats.
template <class V, class MultiplyAdd>
MYLOS_FUNCTION V exp2_reduced(V shifted, V f, MultiplyAdd fma) {
  const auto all = [](float c) { return c - V{}; };
  V p = fma(all(0.00015461444724808513f), f, all(0.0013400428177711937f));
  p = fma(p, f, all(0.00961805667843204f));
  p = fma(p, f, all(0.05550327226669895f));
  p = fma(p, f, all(0.24022650922289554f));
  p = fma(p, f, all(0.6931472067028329f));
  p = fma(p, f, all(1.0f));
  // 127 becomes the exponent's bias; the shift by 23 drops the bits of kRoundingShift.
  if constexpr (std::is_same_v<V, float>) {
    return p * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127u) << 23);
  } else {
    using Integers = decltype(shifted < shifted);
    return p * std::bit_cast<V>((std::bit_cast<Integers>(shifted) + 127) << 23);
  }
}

// e^x within 2 units in the last place. On a CPU 0 below -87, where the result would be denormal, and e^88.3 above 88.3;
// NaN stays NaN.
MYLOS_FUNCTION float exp_f32(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f /* 9 bits: n · kLn2High is exact */,
                  kLn2Low = -2.12194440e-4f;
  const float clamped = x > 88.3f ? 88.3f : x;
  const float shifted = multiply_add(clamped, kLog2e, kRoundingShift), n = shifted - kRoundingShift;
  const float r = multiply_add(n, -kLn2Low, multiply_add(n, -kLn2High, clamped));
  const float e = exp2_reduced(shifted, r * kLog2e, [](float a, float b, float c) { return multiply_add(a, b, c); });
  return x < -87.0f ? 0.0f : e;
#endif
}

// 1 / (1 + e^-x)
MYLOS_FUNCTION float sigmoid_f32(float x) {
  const float d = 1.0f + exp_f32(-x);
#if defined(__CUDA_ARCH__)
  return __fdividef(1.0f, d);  // within 2 ulp, in 2 instructions instead of 10; 0 instead of a denormal
#else
  return 1.0f / d;
#endif
}

}  // namespace mylos::kernels
