// Who wins a ranking of candidates, and who is measured how long.
#include "kernels/matmul/trials.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.hpp"
#include "support/host_tensor.hpp"

namespace mylos::kernels {
namespace {

using detail::Burst;
using detail::Ranking;

// Times that a device would give, with noise that the round trip must see through.
Ranking ranked(const std::vector<double>& truth, double noise, std::vector<double>* spent = nullptr,
               std::size_t variants = 0) {
  std::mt19937_64 random(test::test_seed());
  std::uniform_real_distribution<double> spread(1 - noise, 1 + noise);
  const auto run = [&](std::span<const Burst> bursts) {
    std::vector<double> times;
    for (const Burst& b : bursts) {
      times.push_back(truth[b.candidate] * spread(random));
      if (spent) (*spent)[b.candidate] += b.seconds;
    }
    return times;
  };
  return detail::rank(truth.size(), 10.0, run, variants);
}

TEST(Trials, TheFastestWinsAndTheSlowLeaveEarly) {
  std::vector<double> spent(5);
  const Ranking r = ranked({1.00e-3, 1.5e-3, 0.97e-3, 0.98e-3, 1.015e-3}, 0.002, &spent);
  EXPECT_EQ(r.best, 2u);
  ASSERT_EQ(r.seconds.size(), 5u);
  EXPECT_NEAR(r.seconds[2], 0.97e-3, 1e-5);
  EXPECT_NEAR(r.seconds[1], 1.5e-3, 2e-5);
  EXPECT_LT(spent[1], 0.05);      // the probe
  EXPECT_GT(spent[4], spent[1]);  // and a round
  EXPECT_LT(spent[4], spent[3]);
  EXPECT_DOUBLE_EQ(spent[0], spent[2]);  // the first choice stays to the end
}

TEST(Trials, AFewGoOnFromTheProbe) {
  std::vector<double> truth(12, 1e-3), spent(12);
  for (std::size_t i = 0; i < truth.size(); ++i) truth[i] -= 1e-6 * double(i);
  EXPECT_EQ(ranked(truth, 0, &spent).best, 11u);
  for (std::size_t i = 0; i < spent.size(); ++i) {
    if (i == 0 || i >= 7)
      EXPECT_GT(spent[i], 0.1) << i;
    else
      EXPECT_LT(spent[i], 0.05) << i;
  }
}

// The four best of a probe are variants of one thing: three places of five are left for the others.
TEST(Trials, VariantsOfOneKindDoNotCrowdOutTheOthers) {
  std::vector<double> truth(10, 1e-3), spent(10);
  for (std::size_t i = 0; i < truth.size(); ++i) truth[i] -= 1e-6 * double(i);
  EXPECT_EQ(ranked(truth, 0, &spent, 4).best, 9u);
  for (const std::size_t c : {0, 3, 4, 5, 8, 9}) EXPECT_GT(spent[c], 0.1) << c;
  for (const std::size_t c : {1, 2, 6, 7}) EXPECT_LT(spent[c], 0.05) << c;
  EXPECT_EQ(ranked({1e-3, 0.98e-3, 0.99e-3}, 0, nullptr, 2).best, 1u);
  EXPECT_THROW(ranked({1e-3, 1e-3}, 0, nullptr, 2), Error);
}

TEST(Trials, TheFirstChoiceStaysWithoutAGainAboveTheNoise) {
  EXPECT_EQ(ranked({1e-3, 0.999e-3, 1.001e-3}, 0).best, 0u);
  EXPECT_EQ(ranked({1e-3, 0.997e-3}, 0).best, 1u);
  EXPECT_EQ(ranked({1e-3}, 0.1).best, 0u);
}

TEST(Trials, SlowFirstChoicesAreMeasuredToTheEndAndFailedOnesLose) {
  std::vector<double> spent(2);
  EXPECT_EQ(ranked({2e-3, 1e-3}, 0, &spent).best, 1u);
  EXPECT_DOUBLE_EQ(spent[0], spent[1]);
  EXPECT_EQ(ranked({INFINITY, 1e-3, INFINITY}, 0).best, 1u);
  EXPECT_THROW(ranked({INFINITY, INFINITY}, 0), Error);
}

TEST(Trials, BurstsKeepTheBudget) {
  for (const double budget : {0.0, 1.0, 3.0, 100.0}) {
    double spent = 0, longest = 0;
    detail::rank(12, budget, [&](std::span<const Burst> bursts) {
      std::vector<double> times;
      for (const Burst& b : bursts) {
        times.push_back(1e-3 * (1 + 0.001 * double(b.candidate)));
        spent += b.seconds;
        longest = std::max(longest, b.seconds);
      }
      return times;
    });
    // Here nobody falls behind, which the guess at the bursts to come does not expect.
    EXPECT_LE(spent, std::max(2.0 * budget, 12 * 0.02 + 12 * 0.03 + 1e-9)) << budget;
    EXPECT_LE(longest, 1.2);
  }
}

}  // namespace
}  // namespace mylos::kernels
