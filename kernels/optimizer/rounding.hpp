// How optimizer state and weights are rounded in bf16, and how an exact fp32 weight is kept in two halves (adamw.hpp).
//
// Stochastic: up with the probability of the part that bf16 cannot hold, from 16 random bits an element and channel. The
// bits depend on seed, step, channel and the element's global index alone. Only files that see Kokkos include this.
#pragma once

#include "kernels/detail/pack.hpp"
#include "tensor/philox.hpp"

namespace mylos::kernels {

// Who rounds: one Philox block serves the same eight neighbouring elements in each of these.
enum Channel : std::uint64_t { kFirstState = 0, kSecondState = 1, kParameter = 2 };

struct Rounding {
  std::uint64_t seed;
  std::uint32_t step;

  // 16 random bits for each of the W elements from global index `first`, a multiple of W; 1, 4 or 8 at a time.
  template <int W>
  MYLOS_FUNCTION void bits(Channel channel, std::uint64_t first, std::uint32_t (&out)[W]) const {
    const PhiloxBlock words = block(channel, first);
    if constexpr (W == 1) {
      const std::uint32_t j = std::uint32_t(first) & 7u;
      const std::uint32_t low_half = j & 2u ? words.v[1] : words.v[0], high_half = j & 2u ? words.v[3] : words.v[2];
      out[0] = ((j & 4u ? high_half : low_half) >> (16u * (j & 1u))) & 0xffffu;
    } else {
      const bool upper = W == 4 && first % 8 != 0;  // the other half of the block is a neighbour's
      for (int k = 0; k < W; ++k) {
        const std::uint32_t word = upper ? words.v[(k / 2 + 2) % 4] : words.v[k / 2];
        out[k] = k % 2 == 0 ? word & 0xffffu : word >> 16;
      }
    }
  }
  // Rounds are most of the instructions of a step with bf16 moments, and the GPU's power bounds those too: 7 rounds, the
  // fewest that pass BigCrush in the paper, serve to round.
  MYLOS_FUNCTION PhiloxBlock block(Channel channel, std::uint64_t index) const {
    return philox<7>(seed, Purpose::stochastic_rounding, step, index / 8 * 4 + channel);
  }
};

// The upper half of the result is the bf16. Infinity has no part that bf16 cannot hold and stays; a NaN must not be counted
// up into a number. x is the result of arithmetic: on a GPU 0x7fffffff is then the only NaN, and one integer minimum
// deals with it.
MYLOS_FUNCTION std::uint32_t round_stochastic(float x, std::uint32_t random) {
#if defined(__CUDA_ARCH__)
  return std::uint32_t(::min(__float_as_int(x), 0x7fff0000)) + random;
#else
  return x == x ? std::bit_cast<std::uint32_t>(x) + random : 0x7fc00000u;
#endif
}

// W elements to `to`: as they are in f32, stochastically in bf16.
template <int W, class T>
MYLOS_FUNCTION void store_rounded(const Rounding& rounding, Channel channel, std::uint64_t index, T* to,
                                  const Floats<W>& x) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, x);
  } else {
    std::uint32_t random[W];
    rounding.bits(channel, index, random);
    if constexpr (W == 1) {
      to->bits = std::uint16_t(round_stochastic(x.v[0], random[0]) >> 16);
    } else {
      Words<W, bf16> words;
      for (int k = 0; k < W / 2; ++k)
        words.v[k] = round_stochastic(x.v[2 * k], random[2 * k]) >> 16 |
                     (round_stochastic(x.v[2 * k + 1], random[2 * k + 1]) & 0xffff0000u);
      store_words(to, words);
    }
  }
}

MYLOS_FUNCTION void split(std::uint32_t master, bf16& p, std::uint16_t& low) {
  p = bf16::from_bits(std::uint16_t((master + 0x8000u) >> 16));
  low = std::uint16_t(master);
}
MYLOS_FUNCTION std::uint32_t join(bf16 p, std::uint16_t low) {
  return std::uint32_t(std::uint16_t(p.bits - (low >> 15))) << 16 | low;
}

template <int W>
MYLOS_FUNCTION Floats<W> load_joined(const bf16* p, const std::uint16_t* low) {
  bf16 high[W];
  std::uint16_t rest[W];
  load_raw<W>(p, high);
  load_raw<W>(low, rest);
  Floats<W> x;
  for (int k = 0; k < W; ++k) x.v[k] = std::bit_cast<float>(join(high[k], rest[k]));
  return x;
}
template <int W>
MYLOS_FUNCTION void store_split(bf16* p, std::uint16_t* low, const Floats<W>& x) {
  bf16 high[W];
  std::uint16_t rest[W];
  for (int k = 0; k < W; ++k) split(std::bit_cast<std::uint32_t>(x.v[k]), high[k], rest[k]);
  store_raw<W>(p, high);
  store_raw<W>(low, rest);
}

}  // namespace mylos::kernels
