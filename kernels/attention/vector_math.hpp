// fp32 vectors of the widest registers that the build's instruction set has, and 2^x on them.
// GCC's and Clang's vector extension: one source for AVX-512, AVX2 and the baseline.
#pragma once

#include <cstdint>

#include "kernels/detail/math.hpp"

#if defined(__FMA__)
#include <immintrin.h>
#endif

namespace mylos::kernels::attention {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

using Vec = float __attribute__((vector_size(kLanes * 4)));
using IntVec = std::int32_t __attribute__((vector_size(kLanes * 4)));

// Addresses are multiples of the vector's size: rows of packed tiles are whole vectors in an aligned workspace.
inline Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline IntVec load(const std::int32_t* p) { return *reinterpret_cast<const IntVec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }
inline Vec splat(float x) { return x - Vec{}; }
inline IntVec splat(std::int32_t x) { return x - IntVec{}; }

// a * b + c, rounded once where the processor can. By intrinsics, since GCC before 14 takes -ffp-contract=on for off.
inline Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

// 2^x, relative error below 1.5e-7 for x in [-126, 127.5); 0 below -126 (so 2^-inf is 0), inf above 127.5, NaN stays
// NaN.
inline Vec exp2_of(Vec x) {
  const Vec clamped = x > splat(128.0f) ? splat(128.0f) : x;
  const Vec shifted = clamped + splat(kRoundingShift), f = clamped - (shifted - splat(kRoundingShift));
  const Vec power = exp2_reduced(shifted, f, [](Vec a, Vec b, Vec c) { return multiply_add(a, b, c); });
  return x < splat(-126.0f) ? Vec{} : power;
}

}  // namespace mylos::kernels::attention
