// The sum of exponentials of a row of logits on a GPU, taken in one pass with its maximum.
//
//   RunningSum sum;
//   sum.add(batch);      // packs of logits, bf16 or f32; or one logit
//   sum.add_lanes();     // over a warp: then all lanes have top and the sum of e^(x - top), the same bits in every run
//
// -inf adds nothing; a NaN makes the sum NaN.
#pragma once

#include <cfloat>
#include <cmath>

#include "kernels/detail/pack.hpp"

namespace mylos::kernels::detail {

#if defined(KOKKOS_ENABLE_CUDA)

// 2^x by the special function unit alone, relative error 2^-22; a result that would be denormal is 0.
KOKKOS_FUNCTION inline float exp2_fast(float x) {
  KOKKOS_IF_ON_DEVICE((float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;))
  KOKKOS_IF_ON_HOST((return std::exp2(x);))
}
[[maybe_unused]] constexpr float kLog2e = 1.44269504f;
KOKKOS_FUNCTION inline float exp_fast(float x) { return exp2_fast(x * kLog2e); }

// The greater of each: of two bf16 at a time, which share a word.
template <class T>
KOKKOS_FUNCTION std::uint32_t greater([[maybe_unused]] std::uint32_t a, [[maybe_unused]] std::uint32_t b) {
  if constexpr (sizeof(T) == 2) {
    KOKKOS_IF_ON_DEVICE((std::uint32_t m; asm("max.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b)); return m;))
    KOKKOS_IF_ON_HOST((return a;))
  } else {
    return std::bit_cast<std::uint32_t>(Kokkos::fmax(std::bit_cast<float>(a), std::bit_cast<float>(b)));
  }
}
template <class T>
KOKKOS_FUNCTION float greatest_in(std::uint32_t word) {
  if constexpr (sizeof(T) == 4) return std::bit_cast<float>(word);
  return Kokkos::fmax(std::bit_cast<float>(word << 16), std::bit_cast<float>(word & 0xffff0000u));
}

// Maximum and sum of e^(x - maximum) in one pass (Milakov and Gimelshein 2018): the sum is rescaled once a batch.
struct RunningSum {
  float top = -FLT_MAX, sum = 0.0f;

  KOKKOS_FUNCTION void raise(float x) {
    const float local = Kokkos::fmax(top, x);
    sum *= exp_fast(top - local);
    top = local;
  }
  template <class T, int W, int n>
  KOKKOS_FUNCTION void add(const Words<W, T> (&batch)[n]) {
    std::uint32_t greatest = batch[0].v[0];
    for (int g = 0; g < n; ++g)
      for (int k = 0; k < Words<W, T>::kCount; ++k) greatest = greater<T>(greatest, batch[g].v[k]);
    raise(greatest_in<T>(greatest));
    for (int g = 0; g < n; ++g) {
      Floats<W> e = to_floats(batch[g]);
      for (int k = 0; k < W; ++k) e.v[k] = exp_fast(e.v[k] - top);
      for (int half = W / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) e.v[k] += e.v[k + half];
      sum += e.v[0];
    }
  }
  KOKKOS_FUNCTION void add(float x) {
    raise(x);
    sum += exp_fast(x - top);
  }
  // Over a warp; all lanes get the same bits.
  KOKKOS_FUNCTION void add_lanes() {
    KOKKOS_IF_ON_DEVICE((float greatest = top; for (int step = 16; step > 0; step /= 2) greatest =
                                                   fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, step));
                         raise(greatest);
                         for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);))
  }
};

#endif

}  // namespace mylos::kernels::detail
