// exp(x) for x <= 0 in fp32, within 2 ulp, free of branches and calls so that compilers vectorise a loop over it on
// the CPU.
//
// x = n·ln 2 + r with |r| <= ln 2 / 2; e^r is Taylor's polynomial of degree 7, whose remainder there is below 6e-9.
// Values below e^-87, where the result would be denormal, are 0; so is -inf. NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace mylos::kernels::detail {

// GCC does not contract a * b + c by itself under -ffp-contract=on; where the CPU has the instruction it halves the
// work.
inline float multiply_add(float a, float b, float c) {
#if defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

inline float exp_of_negative(float x) {
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kShift = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, which is then in the low bits
  constexpr float kLn2High = 0.693359375f;    // 9 bits, so that n · kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;  // ln 2 - kLn2High
  const float shifted = multiply_add(x, kLog2e, kShift);
  const float n = shifted - kShift;
  const float r = multiply_add(n, -kLn2Low, multiply_add(n, -kLn2High, x));
  float e = 1.0f / 5040;
  e = multiply_add(e, r, 1.0f / 720);
  e = multiply_add(e, r, 1.0f / 120);
  e = multiply_add(e, r, 1.0f / 24);
  e = multiply_add(e, r, 1.0f / 6);
  e = multiply_add(e, r, 0.5f);
  e = multiply_add(e, r, 1.0f);
  e = multiply_add(e, r, 1.0f);
  // 127 becomes the exponent's bias; the shift by 23 drops kShift's own bits.
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127u) << 23);
  return x < -87.0f ? 0.0f : e * power;
}

}  // namespace mylos::kernels::detail
