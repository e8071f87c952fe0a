// Packed micro-batches of random documents, for the tests of their widening.
#pragma once

#include <cstring>

#include "data/host_batch.hpp"
#include "kernel_test.hpp"

namespace mylos::test {

// Rows of random documents; with_long: the last row is one document.
inline data::HostBatch random_batch(std::int64_t rows, std::int64_t sequence, DType dtype, std::int64_t mean_length) {
  data::HostBatch b;
  b.prepare(rows, sequence, dtype);
  const std::vector<std::int32_t> tokens =
      random_ints(rows * (sequence + 1), 0, dtype == DType::u16 ? 65536 : INT32_MAX, test_seed());
  const std::vector<std::int32_t> cuts =
      random_ints(rows * (sequence + 1), 0, std::int32_t(mean_length), test_seed() + 1);
  const std::vector<std::int32_t> quiet = random_ints(rows * (sequence + 1), 0, 5, test_seed() + 2);
  for (std::int64_t r = 0; r < rows; ++r) {
    data::set_bits(b.ignored(r), 0, sequence + 1, false);
    for (std::int64_t t = 0; t <= sequence; ++t) {
      const auto i = std::size_t(r * (sequence + 1) + t);
      const std::uint32_t token = std::uint32_t(tokens[i]);
      std::memcpy(b.tokens(r) + t * size_of(dtype), &token, std::size_t(size_of(dtype)));
      if (cuts[i] == 0 && (r + 1 < rows || rows == 1)) data::set_bit(b.begins(r), t);
      if (quiet[i] == 0) data::set_bit(b.ignored(r), t);
    }
  }
  return b;
}

}  // namespace mylos::test
