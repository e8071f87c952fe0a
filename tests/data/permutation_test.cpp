#include "data/permutation.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_set>
#include <vector>

#include "data/files.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::test_seed;

std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) {
  const Permutation p(seed, epoch, n);
  std::vector<std::int64_t> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(p(i));
  return v;
}

TEST(Permutation, HitsEveryValueOnce) {
  std::vector<std::int64_t> sizes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 97, 101, 1009, 10007, 65537};
  for (std::int64_t k = 4; k <= 16; ++k)
    for (const std::int64_t d : {-1, 0, 1}) sizes.push_back((std::int64_t(1) << k) + d);
  for (std::int64_t r = 11; r <= 301; r += 58)
    for (const std::int64_t d : {-1, 0, 1}) sizes.push_back(r * r + d);
  std::mt19937_64 gen(test_seed());
  for (int i = 0; i < 20; ++i) sizes.push_back(1 + std::int64_t(gen() % 5000));
  for (const std::int64_t n : sizes) {
    std::vector<std::int64_t> v = order(gen(), gen() % 1000, n);
    std::sort(v.begin(), v.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(v[std::size_t(i)], i) << "n " << n;
  }
}

TEST(Permutation, InverseBeyond32Bits) {
  std::mt19937_64 gen(test_seed() + 1);
  for (const std::int64_t n : {(std::int64_t(1) << 32) - 1, (std::int64_t(1) << 32) + 1,
                               std::int64_t(10'000'000'000'019), (std::int64_t(1) << 61) - 1, std::int64_t(1) << 62}) {
    const Permutation p(gen(), 3, n);
    std::unordered_set<std::int64_t> seen;
    const std::int64_t begin = std::int64_t(gen() % std::uint64_t(n - 2000));
    for (std::int64_t i = begin; i < begin + 2000; ++i) {
      const std::int64_t v = p(i);
      ASSERT_TRUE(v >= 0 && v < n);
      ASSERT_EQ(p.position_of(v), i);
      ASSERT_TRUE(seen.insert(v).second);
    }
    for (const std::int64_t i : {std::int64_t(0), n - 1}) ASSERT_EQ(p.position_of(p(i)), i);
  }
}

TEST(Permutation, SeedAndEpochGiveOtherOrders) {
  const std::uint64_t seed = test_seed();
  EXPECT_EQ(order(seed, 5, 1000), order(seed, 5, 1000));
  EXPECT_NE(order(seed, 5, 1000), order(seed, 6, 1000));
  EXPECT_NE(order(seed, 5, 1000), order(seed + 1, 5, 1000));
  EXPECT_NE(order(seed, 5, 1000), order(seed + (std::uint64_t(1) << 40), 5, 1000));
}

// Over many epochs each of the n! orders of n elements must come about equally often: chi-squared, at a bound that a
// true shuffle passes but for one time in about 10^5.
TEST(Permutation, SmallOrdersAreEquallyLikely) {
  for (const std::int64_t n : {2, 3, 4}) {
    std::vector<std::vector<std::int64_t>> kinds;
    std::vector<std::int64_t> v(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) v[std::size_t(i)] = i;
    do kinds.push_back(v);
    while (std::next_permutation(v.begin(), v.end()));
    std::vector<double> counts(kinds.size());
    const int epochs = 6000;
    for (int e = 0; e < epochs; ++e)
      ++counts[std::size_t(std::lower_bound(kinds.begin(), kinds.end(), order(test_seed(), std::uint64_t(e), n)) -
                           kinds.begin())];
    const double expected = double(epochs) / double(kinds.size()), freedom = double(kinds.size() - 1);
    double chi = 0;
    for (const double c : counts) chi += (c - expected) * (c - expected) / expected;
    // Wilson and Hilferty's approximation of the quantile at 4.3 standard deviations.
    const double bound = freedom * std::pow(1 - 2 / (9 * freedom) + 4.3 * std::sqrt(2 / (9 * freedom)), 3);
    EXPECT_LT(chi, bound) << "n " << n;
  }
}

// A shuffled order has no trend: the mean distance of neighbours is n / 3, the rank correlation with i about 0 ±
// 1/sqrt(n).
TEST(Permutation, LooksShuffled) {
  for (const std::int64_t n : {1000, 4096, 99'991}) {
    const std::vector<std::int64_t> v = order(test_seed(), 0, n);
    double distance = 0, correlation = 0;
    const double middle = double(n - 1) / 2;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) distance += std::fabs(double(v[std::size_t(i)] - v[std::size_t(i - 1)]));
      correlation += (double(i) - middle) * (double(v[std::size_t(i)]) - middle);
    }
    correlation /= double(n) * (double(n) * double(n) - 1) / 12;
    EXPECT_NEAR(distance / double(n - 1) / double(n), 1.0 / 3, 5 * 0.24 / std::sqrt(double(n)) + 1.0 / double(n));
    EXPECT_LT(std::fabs(correlation), 5 / std::sqrt(double(n)));
  }
}

TEST(Permutation, RefusesWhatIsOutside) {
  EXPECT_HAS(error_of([] { Permutation(1, 0, 0); }), "0 elements");
  EXPECT_HAS(error_of([] { Permutation(1, std::uint64_t(1) << 32, 5); }), "epoch 4294967296");
  const Permutation p(1, 0, 5);
  EXPECT_HAS(error_of([&] { p(5); }), "position 5");
  EXPECT_HAS(error_of([&] { p.position_of(-1); }), "value -1");
}

}  // namespace
}  // namespace mylos::data
