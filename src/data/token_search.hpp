// The places of one value among tokens as they lie in a file or a batch, at the speed of memory where it is rare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/dtype.hpp"

namespace mylos::data {

namespace detail {

template <class T>
T token_of(const std::byte* from, std::int64_t i) {
  T t;
  std::memcpy(&t, from + i * std::int64_t(sizeof(T)), sizeof(T));
  return t;
}

// Whether one of kBlock elements is `value`, by vector instructions.
template <std::int64_t kBlock, class T>
bool holds(const std::byte* from, T value) {
  T any = 0;
  for (std::int64_t k = 0; k < kBlock; ++k) any = T(any | T(token_of<T>(from, k) == value));
  return any != 0;
}

}  // namespace detail

// Calls found(i) for each i in 0 .. count - 1, rising, at which element i of `from` (unaligned) is `value`.
template <class T, class F>
void for_each_equal(const std::byte* from, std::int64_t count, T value, F&& found) {
  // What does not hold the value is passed over: large blocks first, then small ones, then words.
  constexpr std::int64_t kLarge = 256, kSmall = 64, kSize = sizeof(T), kWord = 8 / kSize;
  constexpr std::uint64_t kOnes = ~std::uint64_t(0) / std::numeric_limits<T>::max(), kTops = kOnes << (8 * kSize - 1);
  std::int64_t i = 0;
  const auto search = [&](std::int64_t end) {
    for (; i + kSmall <= end; i += kSmall) {
      if (!detail::holds<kSmall>(from + i * kSize, value)) continue;
      for (std::int64_t w = i; w < i + kSmall; w += kWord) {
        // An element that is 0 borrows from its top bit, and may make the next one look as if it were 0.
        const std::uint64_t word = detail::token_of<std::uint64_t>(from + w * kSize, 0) ^ kOnes * value;
        if (((word - kOnes) & ~word & kTops) == 0) continue;
        for (std::int64_t k = w; k < w + kWord; ++k)
          if (detail::token_of<T>(from, k) == value) found(k);
      }
    }
  };
  while (i + kLarge <= count) {
    if (detail::holds<kLarge>(from + i * kSize, value)) {
      search(i + kLarge);
    } else {
      i += kLarge;
    }
  }
  search(count);
  for (; i < count; ++i)
    if (detail::token_of<T>(from, i) == value) found(i);
}

// dtype u16 or u32; a value that it cannot hold is nowhere.
template <class F>
void for_each_equal(const std::byte* from, std::int64_t count, DType dtype, std::int64_t value, F&& found) {
  if (value < 0) return;
  if (dtype == DType::u32) {
    if (value <= std::numeric_limits<std::uint32_t>::max()) for_each_equal(from, count, std::uint32_t(value), found);
  } else if (value <= std::numeric_limits<std::uint16_t>::max()) {
    for_each_equal(from, count, std::uint16_t(value), found);
  }
}

}  // namespace mylos::data
