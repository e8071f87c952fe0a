// A random order of 0 .. n - 1 that is computed, not stored: shuffling 10^11 samples costs no memory and no start-up
// time.
//
// A Feistel network over pairs of digits of base ceil(sqrt(n)) (Black and Rogaway, "Ciphers with arbitrary finite
// domains", CT-RSA 2002) with Philox as the round function; values at or above n are encrypted again until they fall
// below it (cycle walking; the base leaves fewer than 2·sqrt(n) + 2 such values). One permutation for each (seed,
// epoch).
#pragma once

#include <cstdint>
#include <span>

namespace mylos::data {

class Permutation {
 public:
  // n from 1 to 2^62.
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n);

  std::int64_t size() const { return n_; }
  std::int64_t operator()(std::int64_t i) const;        // where position i of the shuffled order points to
  void apply(std::span<std::int64_t> positions) const;  // each becomes what it points to
  std::int64_t position_of(std::int64_t value) const;   // the inverse

 private:
  std::uint64_t round(int r, std::uint64_t digit) const;
  std::uint64_t once(std::uint64_t value) const;
  std::uint64_t once_back(std::uint64_t value) const;

  std::uint64_t seed_, epoch_;
  std::int64_t n_;
  std::uint64_t base_;
};

}  // namespace mylos::data
