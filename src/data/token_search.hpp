// The places of one value among tokens as they lie in a file or a batch, at the speed of memory where it is rare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/dtype.hpp"

namespace mylos::data {

// Calls found(i) for each i in 0 .. count - 1, rising, at which element i of `from` (unaligned) is `value`.
template <class T, class F>
void for_each_equal(const std::byte* from, std::int64_t count, T value, F&& found) {
  const auto token = [from](std::int64_t i) {
    T t;
    std::memcpy(&t, from + i * std::int64_t(sizeof(T)), sizeof(T));
    return t;
  };
  // Blocks without the value are passed over by vector instructions.
  constexpr std::int64_t kBlock = 64;
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    T any = 0;
    for (std::int64_t k = 0; k < kBlock; ++k) any = T(any | T(token(i + k) == value));
    if (any == 0) continue;
    for (std::int64_t k = 0; k < kBlock; ++k)
      if (token(i + k) == value) found(i + k);
  }
  for (; i < count; ++i)
    if (token(i) == value) found(i);
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
