// Counter-based random numbers: Philox4x32, 10 rounds unless said otherwise (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC'11). A value depends on (seed, purpose, step, index) alone, never on threads, ranks or the
// order of calls.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "tensor/function.hpp"

namespace mylos {

// What a random number is for; part of the key, so that two uses never share numbers.
enum class Purpose : std::uint32_t {
  init = 1,
  stochastic_rounding = 2,
  shuffle = 3,
  sampling = 4,
  dropout = 5,
  test = 6
};

struct PhiloxBlock {
  std::uint32_t v[4];
};

// Four 32-bit words for counter (index, step) under key (seed, purpose). The paper finds no flaw in 7 rounds and more.
template <int kRounds = 10>
MYLOS_FUNCTION PhiloxBlock philox(std::uint64_t seed, Purpose purpose, std::uint32_t step, std::uint64_t index) {
  std::uint32_t c0 = std::uint32_t(index), c1 = std::uint32_t(index >> 32), c2 = step, c3 = std::uint32_t(purpose);
  std::uint32_t k0 = std::uint32_t(seed), k1 = std::uint32_t(seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t(0xD2511F53u) * c0;
    const std::uint64_t p1 = std::uint64_t(0xCD9E8D57u) * c2;
    c0 = std::uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = std::uint32_t(p1);
    c2 = std::uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = std::uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// (0, 1]: never zero, so that its logarithm is finite.
MYLOS_FUNCTION float unit_interval(std::uint32_t word) { return (float(word >> 8) + 1.0f) * (1.0f / 16777216.0f); }

}  // namespace mylos
