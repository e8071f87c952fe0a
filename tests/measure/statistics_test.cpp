#include "measure/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using test::error_of;

// All ways to choose which of n + m distinct ranks are a's: how often U (pairs with b above a) is at most u.
double enumerated_cdf(int n, int m, int u) {
  std::int64_t all = 0, below = 0;
  for (std::uint32_t choice = 0; choice < (1u << (n + m)); ++choice) {
    if (std::popcount(choice) != n) continue;
    int pairs = 0, a_so_far = 0;
    for (int rank = 0; rank < n + m; ++rank) {
      if (choice >> rank & 1)
        ++a_so_far;
      else
        pairs += a_so_far;
    }
    ++all;
    below += pairs <= u;
  }
  return double(below) / double(all);
}

// Values that resemble their neighbours by phi, with the heavy tails of timings, around 0 with a median of 0.
std::vector<double> noise(std::mt19937_64& random, int n, double phi) {
  std::student_t_distribution<double> tails(3);
  std::vector<double> values;
  double x = 0;
  for (int i = -50; i < n; ++i) {
    x = phi * x + std::sqrt(1 - phi * phi) * tails(random);
    if (i >= 0) values.push_back(x);
  }
  return values;
}

TEST(Statistics, MedianAndItsDeviation) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median_absolute_deviation(std::vector<double>{1, 1, 2, 2, 4, 6, 9}), 1);
  EXPECT_CONTAINS(error_of([] { median({}); }), "at least one");
  EXPECT_CONTAINS(error_of([] { median(std::vector<double>{1, std::nan("")}); }), "finite");
}

TEST(Statistics, TheExactDistributionIsThatOfAllOrders) {
  for (const auto& [n, m] : {std::pair(1, 1), {2, 3}, {5, 5}, {4, 8}, {7, 6}})
    for (int u = 0; u <= n * m; ++u)
      EXPECT_NEAR(mann_whitney_cdf(n, m, u), enumerated_cdf(n, m, u), 1e-12) << n << m << u;
  // Critical values of the usual table (5 % two-sided): U = 23 for 10 and 10, 127 for 20 and 20.
  EXPECT_LE(mann_whitney_cdf(10, 10, 23), 0.025);
  EXPECT_GT(mann_whitney_cdf(10, 10, 24), 0.025);
  EXPECT_LE(mann_whitney_cdf(20, 20, 127), 0.025);
  EXPECT_GT(mann_whitney_cdf(20, 20, 128), 0.025);
  EXPECT_NEAR(mann_whitney_cdf(30, 30, 449) + mann_whitney_cdf(30, 30, 450), 1.0, 1e-12);  // symmetric about 450
}

TEST(Statistics, AgreesWithAWorkedExample) {
  // Hollander and Wolfe, Nonparametric Statistical Methods, table 4.1 (permeability of membranes): W = 30, one-sided p 0.1272, estimate of
  // the shift -0.305.
  const std::vector<double> term{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46},
      early{1.15, 0.88, 0.90, 0.74, 1.21};
  const Shift s = compare_locations(term, early, 1, 1);
  EXPECT_NEAR(s.shift, -0.305, 1e-12);
  EXPECT_EQ(s.u, 15);
  EXPECT_NEAR(s.p, 2 * 0.1272, 1e-4);
  EXPECT_NEAR(s.low, -0.76, 1e-12);
  EXPECT_NEAR(s.high, 0.15, 1e-12);
}

TEST(Statistics, ShiftAndIntervalAreThoseOfAllDifferences) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const auto& [n, m] : {std::pair(5, 6), {31, 40}, {200, 61}}) {
    std::vector<double> a(static_cast<std::size_t>(n)), b(static_cast<std::size_t>(m)), differences;
    for (double& v : a) v = normal(random);
    for (double& v : b) v = normal(random) - 0.5;
    for (const double x : a)
      for (const double y : b) differences.push_back(y - x);
    const Shift s = compare_locations(a, b, 1, 1);
    EXPECT_EQ(s.shift, median(differences));
    std::sort(differences.begin(), differences.end());
    EXPECT_TRUE(std::binary_search(differences.begin(), differences.end(), s.low));
    // As many differences lie outside on each side as the distribution of U allows.
    const auto outside = std::lower_bound(differences.begin(), differences.end(), s.low) - differences.begin();
    EXPECT_EQ(std::size_t(outside),
              differences.size() -
                  std::size_t(std::upper_bound(differences.begin(), differences.end(), s.high) - differences.begin()));
    if (n <= 30) {
      EXPECT_LE(mann_whitney_cdf(n, m, int(outside)), 0.025);
    }
  }
}

TEST(Statistics, TheNormalLimitMeetsTheExactOneAndCountsTies) {
  std::vector<double> a(30), b(30);
  std::iota(a.begin(), a.end(), 0.0);
  for (std::size_t i = 0; i < 30; ++i) b[i] = double(i) + 5.25;
  const Shift s = compare_locations(a, b, 1, 1);
  const double limit = std::erfc((s.u - 450 - 0.5) / std::sqrt(900.0 * 61 / 12) / std::sqrt(2.0));
  EXPECT_NEAR(s.p, limit, 0.03 * limit);
  EXPECT_NE(s.p, limit);
  // All equal: nothing differs, and nothing divides by zero.
  const std::vector<double> same(12, 2.0);
  const Shift none = compare_locations(same, same);
  EXPECT_EQ(none.p, 1);
  EXPECT_EQ(none.shift, 0);
  EXPECT_EQ(none.low, 0);
  EXPECT_EQ(none.high, 0);
  // Half of each side tied. By the textbook's formula: sigma^2 = n m / 12 (N + 1 - sum(t^3 - t) / (N (N - 1))).
  const std::vector<double> x{1, 1, 2, 3, 3, 3}, y{1, 3, 4, 4, 5, 6};
  double by_hand = 0;
  for (const double p : x)
    for (const double q : y) by_hand += q > p ? 1 : q == p ? 0.5 : 0;
  const double sigma = std::sqrt(36.0 / 12 * (13 - (24.0 + 60.0 + 6.0) / (12 * 11)));
  const Shift tied = compare_locations(x, y, 1, 1);
  EXPECT_EQ(tied.u, by_hand);
  EXPECT_NEAR(tied.p, std::erfc((by_hand - 18 - 0.5) / sigma / std::sqrt(2.0)), 1e-12);
}

TEST(Statistics, TooFewValuesGiveNoInterval) {
  const std::vector<double> three{1, 2, 3}, four{1.5, 2.5, 3.5, 4.5}, other{11, 12, 13, 14};
  EXPECT_TRUE(std::isinf(compare_locations(three, four).low));
  EXPECT_TRUE(std::isinf(compare_locations(three, four).high));
  const Shift s = compare_locations(four, other);
  EXPECT_NEAR(s.p, 2.0 / 70, 1e-12);
  EXPECT_EQ(s.low, 6.5);  // with 4 and 4 the interval is all differences
  EXPECT_EQ(s.high, 12.5);
}

TEST(Statistics, AutocorrelationTimeOfAKnownProcess) {
  std::mt19937_64 random(2);
  for (const auto& [phi, tau] : {std::pair(0.0, 1.0), {0.5, 3.0}, {0.8, 9.0}}) {  // (1 + phi) / (1 - phi)
    const double measured = autocorrelation_time(noise(random, 20000, phi));
    EXPECT_NEAR(measured, tau, 0.2 * tau) << phi;
  }
  EXPECT_EQ(autocorrelation_time(std::vector<double>(100, 1.0)), 1);
  EXPECT_EQ(autocorrelation_time(std::vector<double>{1, 2, 3}), 1);
}

// Of 95 % intervals, 95 % hold the truth: within what 400 trials can tell, also when neighbours resemble each other.
TEST(Statistics, IntervalsHoldTheTruthAsOftenAsTheySay) {
  std::mt19937_64 random(3);
  constexpr int kTrials = 400;
  for (const auto& [phi, n, least] : {std::tuple(0.0, 25, 0.93), {0.0, 100, 0.93}, {0.5, 100, 0.90}}) {
    int median_holds = 0, shift_holds = 0, differs = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const std::vector<double> a = noise(random, n, phi), b = noise(random, n, phi);
      const MedianInterval m = sample_interval(a);
      const Shift s = compare_locations(a, b);
      median_holds += m.low <= 0 && 0 <= m.high;
      shift_holds += s.low <= 0 && 0 <= s.high;
      differs += s.p < 0.05;
    }
    EXPECT_GE(median_holds, least * kTrials) << phi << ' ' << n;
    EXPECT_LE(median_holds, 0.99 * kTrials) << phi << ' ' << n;
    EXPECT_GE(shift_holds, least * kTrials) << phi << ' ' << n;
    EXPECT_LE(differs, (1 - least) * kTrials) << phi << ' ' << n;
  }
  // Without the widening the second would fail: neighbours by 0.5 leave a plain interval at about 80 %.
  int plain = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Shift s = compare_locations(noise(random, 100, 0.5), noise(random, 100, 0.5), 1, 1);
    plain += s.low <= 0 && 0 <= s.high;
  }
  EXPECT_LT(plain, 0.88 * kTrials);
}

// A machine that gets slower and slower: the widened interval would begin at a time below 0.
TEST(Statistics, IntervalsOfTimesHoldNoneBelowZero) {
  std::vector<double> times(40);
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = double(i + 1);
  EXPECT_EQ(sample_interval(times).low, 0);
  for (double& t : times) t -= 30;
  EXPECT_LT(sample_interval(times).low, -30);
}

TEST(Statistics, ManyValuesNeedNoTableOfPairs) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal(1, 0.01);
  std::vector<double> a(20000), b(20000);
  for (double& v : a) v = normal(random);
  for (double& v : b) v = 0.001 + normal(random);
  const Shift s = compare_locations(a, b);  // 4e8 differences
  EXPECT_LT(s.low, 0.001);
  EXPECT_GT(s.high, 0.001);
  EXPECT_NEAR(s.shift, 0.001, 4e-4);
  EXPECT_LT(s.p, 1e-6);
}

TEST(Statistics, PairsCancelWhatTheyShare) {
  // Hollander and Wolfe, table 3.1 (depression before and after): T+ = 5 of 45, two-sided p 0.0390625, shift -0.46, interval -0.786 to -0.01.
  const std::vector<double> before{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30},
      after{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};
  std::vector<double> differences;
  for (std::size_t i = 0; i < before.size(); ++i) differences.push_back(after[i] - before[i]);
  const Shift s = compare_pairs(differences);
  EXPECT_EQ(s.u, 5);
  EXPECT_NEAR(s.p, 0.0390625, 1e-12);
  EXPECT_NEAR(s.shift, -0.46, 1e-9);
  EXPECT_NEAR(s.low, -0.786, 1e-9);
  EXPECT_NEAR(s.high, -0.01, 1e-9);
  // Six pairs are the fewest that can say anything: p = 2 / 64.
  EXPECT_NEAR(compare_pairs(std::vector<double>{1, 2, 3, 4, 5, 6}).p, 2.0 / 64, 1e-12);
  EXPECT_TRUE(std::isinf(compare_pairs(std::vector<double>{1, 2, 3, 4, 5}).low));
  EXPECT_EQ(compare_pairs(std::vector<double>{0, 0, 0, 0, 0, 0}).p, 1);
  EXPECT_CONTAINS(error_of([] { compare_pairs({}); }), "0 pairs");
}

TEST(Statistics, HolmAdjustsInOrder) {
  // Holm (1979): the smallest times n, the next times n - 1, never falling.
  const std::vector<double> adjusted = holm(std::vector<double>{0.01, 0.04, 0.03, 0.005});
  const std::vector<double> expected{0.03, 0.06, 0.06, 0.02};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], 1e-12) << i;
  EXPECT_TRUE(holm({}).empty());
  EXPECT_EQ(holm(std::vector<double>{0.9, 0.8})[0], 1.0);
}

}  // namespace
}  // namespace mylos::measure
