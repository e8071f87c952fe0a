// The Philox of tensor/philox.hpp for several counters at once, in vector registers: eight numbers of 64 bits a Lanes, as many of those side by
// side as hide the time of a product.
//
// What a product needs of its operands are their low halves, so what lies in the high halves is left there. Compilers find no instruction for such
// a product, so it is named where there is one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "tensor/philox.hpp"

namespace mylos::data {

using Lanes = std::uint64_t __attribute__((vector_size(64)));
inline constexpr std::size_t kLanes = 8;
inline constexpr std::uint64_t kLowHalf = 0xffffffffu;

// Of the low halves.
inline Lanes product(Lanes a, std::uint32_t b) {
#if defined(__AVX512F__)
  // All lanes are asked for by a mask, since GCC 12 takes the plain form for one of an unset variable (-Wmaybe-uninitialized).
  const __m512i both = _mm512_set1_epi64(std::int64_t(b));
  return reinterpret_cast<Lanes>(_mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), both));
#else
  return (a & kLowHalf) * std::uint64_t(b);
#endif
}

// Division by a number that stays the same, of 1 to 2^32 - 1: by its reciprocal, which gives the quotient or one less.
class Divisor {
 public:
  explicit Divisor(std::uint64_t by) : by_(by), reciprocal_(~std::uint64_t(0) / by) {}
  void divide(Lanes x, Lanes& quotient, Lanes& rest) const {
    const auto low = std::uint32_t(reciprocal_), high = std::uint32_t(reciprocal_ >> 32), by = std::uint32_t(by_);
    const Lanes x_high = x >> 32;
    const Lanes middle = product(x, high) + (product(x, low) >> 32);
    const Lanes carried = (middle & kLowHalf) + product(x_high, low);
    const Lanes q = product(x_high, high) + (middle >> 32) + (carried >> 32);
    const Lanes r = x - (product(q, by) + (product(q >> 32, by) << 32));
    quotient = r < by_ ? q : q + 1;
    rest = r < by_ ? r : r - by_;
  }

 private:
  std::uint64_t by_, reciprocal_;
};

// v[1] and v[0] of philox(), in the high half and the low one.
template <std::size_t N>
std::array<Lanes, N> philox_lanes(std::uint64_t seed, Purpose purpose, std::uint32_t step,
                                  const std::array<Lanes, N>& index) {
  constexpr int kRounds = 10;
  std::array<Lanes, N> c0 = index, c1, c2, c3;
  for (std::size_t i = 0; i < N; ++i) {
    c1[i] = index[i] >> 32;
    c2[i] = Lanes{} + step;
    c3[i] = Lanes{} + std::uint64_t(purpose);
  }
  auto k0 = std::uint32_t(seed), k1 = std::uint32_t(seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < N; ++i) {
      const Lanes p0 = product(c0[i], 0xD2511F53u), p1 = product(c2[i], 0xCD9E8D57u);
      c0[i] = p1 >> 32 ^ c1[i] ^ std::uint64_t(k0);
      c1[i] = p1;
      c2[i] = p0 >> 32 ^ c3[i] ^ std::uint64_t(k1);
      c3[i] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  std::array<Lanes, N> result;
  for (std::size_t i = 0; i < N; ++i) result[i] = c1[i] << 32 | (c0[i] & kLowHalf);
  return result;
}

}  // namespace mylos::data
