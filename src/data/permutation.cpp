#include "data/permutation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "data/philox_lanes.hpp"
#include "tensor/philox.hpp"

namespace mylos::data {
namespace {

constexpr int kRounds = 8;

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) : seed_(seed), epoch_(epoch), n_(n) {
  check(n >= 1 && n <= std::int64_t(1) << 62, "a permutation of {} elements; from 1 to 2^62 are possible", n);
  check(epoch <= 0xffffffffu, "epoch {} is above 2^32 - 1", epoch);
  base_ = std::uint64_t(std::sqrt(double(n)));  // off by at most one below 2^62
  while (base_ * base_ < std::uint64_t(n)) ++base_;
  while (base_ > 1 && (base_ - 1) * (base_ - 1) >= std::uint64_t(n)) --base_;
}

// A digit is at most 2^31, so digit and round share the counter without meeting.
std::uint64_t Permutation::round(int r, std::uint64_t digit) const {
  const PhiloxBlock b = philox(seed_, Purpose::shuffle, std::uint32_t(epoch_), std::uint64_t(r) << 40 | digit);
  return (std::uint64_t(b.v[1]) << 32 | b.v[0]) % base_;
}

std::uint64_t Permutation::once(std::uint64_t value) const {
  std::uint64_t left = value / base_, right = value % base_;
  for (int r = 0; r < kRounds; ++r) {
    const std::uint64_t sum = left + round(r, right);  // of two digits
    const std::uint64_t next = sum < base_ ? sum : sum - base_;
    left = right;
    right = next;
  }
  return left * base_ + right;
}

std::uint64_t Permutation::once_back(std::uint64_t value) const {
  std::uint64_t left = value / base_, right = value % base_;
  for (int r = kRounds - 1; r >= 0; --r) {
    const std::uint64_t before = (right + base_ - round(r, left)) % base_;
    right = left;
    left = before;
  }
  return left * base_ + right;
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  check(i >= 0 && i < n_, "position {} of a permutation of {}", i, n_);
  std::uint64_t value = std::uint64_t(i);
  do value = once(value);
  while (value >= std::uint64_t(n_));
  return std::int64_t(value);
}

// once() of sixteen values at a time: one alone waits for product after product.
void Permutation::apply(std::span<std::int64_t> positions) const {
  constexpr std::size_t kVectors = 2, kTogether = kVectors * kLanes;
  const Divisor base(base_);
  for (; !positions.empty(); positions = positions.subspan(std::min(kTogether, positions.size()))) {
    const auto here = positions.first(std::min(kTogether, positions.size()));
    std::array<std::uint64_t, kTogether> values{};
    for (std::size_t i = 0; i < here.size(); ++i) {
      check(here[i] >= 0 && here[i] < n_, "position {} of a permutation of {}", here[i], n_);
      values[i] = std::uint64_t(here[i]);
    }
    std::array<Lanes, kVectors> left, right, index;
    static_assert(sizeof left == sizeof values);
    std::memcpy(&left, &values, sizeof values);
    for (std::size_t v = 0; v < kVectors; ++v) base.divide(left[v], left[v], right[v]);
    for (int r = 0; r < kRounds; ++r) {
      for (std::size_t v = 0; v < kVectors; ++v) index[v] = right[v] | std::uint64_t(r) << 40;
      const std::array<Lanes, kVectors> drawn = philox_lanes(seed_, Purpose::shuffle, std::uint32_t(epoch_), index);
      for (std::size_t v = 0; v < kVectors; ++v) {
        Lanes quotient, digit;
        base.divide(drawn[v], quotient, digit);
        const Lanes sum = left[v] + digit;
        left[v] = right[v];
        right[v] = sum < base_ ? sum : sum - base_;
      }
    }
    std::array<std::uint64_t, kTogether> digits;
    std::memcpy(&values, &left, sizeof values);
    std::memcpy(&digits, &right, sizeof digits);
    for (std::size_t i = 0; i < here.size(); ++i) {
      std::uint64_t value = values[i] * base_ + digits[i];
      while (value >= std::uint64_t(n_)) value = once(value);
      here[i] = std::int64_t(value);
    }
  }
}

std::int64_t Permutation::position_of(std::int64_t value) const {
  check(value >= 0 && value < n_, "value {} of a permutation of {}", value, n_);
  std::uint64_t i = std::uint64_t(value);
  do i = once_back(i);
  while (i >= std::uint64_t(n_));
  return std::int64_t(i);
}

}  // namespace mylos::data
