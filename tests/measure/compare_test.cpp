#include "measure/compare.hpp"

#include <cmath>

#include "checkpoint/temporary_folder.hpp"
#include "measure/sample_bench.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using test::error_of;
using test::noisy_samples;

Comparison compare(const ComparedCase& c, const CompareOptions& options = {}) {
  return compare_cases(std::span(&c, 1), options)[0];
}

// Rounds as an interleaved comparison measures them: each pair of runs has a speed of its own (load, heat), each run a little luck.
ComparedCase interleaved(std::mt19937_64& random, int rounds, double slowdown) {
  std::normal_distribution<double> normal;
  ComparedCase c;
  for (int i = 0; i < rounds; ++i) {
    const double shared = 1 + 0.02 * normal(random);
    c.a.push_back(noisy_samples(random, 15, 1e-3 * shared * (1 + 0.003 * normal(random))));
    c.b.push_back(noisy_samples(random, 15, 1e-3 * slowdown * shared * (1 + 0.003 * normal(random))));
  }
  return c;
}

TEST(Compare, TheRuleOfVerdicts) {
  EXPECT_EQ(judge({1.000, 0.995, 1.005, 0.5}, 0.01), Verdict::same);
  EXPECT_EQ(judge({1.005, 1.002, 1.008, 1e-9}, 0.01), Verdict::same);  // significant, but too small to matter
  EXPECT_EQ(judge({1.030, 1.020, 1.040, 1e-9}, 0.01), Verdict::slower);
  EXPECT_EQ(judge({0.970, 0.960, 0.980, 1e-9}, 0.01), Verdict::faster);
  EXPECT_EQ(judge({1.030, 1.020, 1.040, 0.06}, 0.01), Verdict::unsure);
  EXPECT_EQ(judge({1.012, 1.006, 1.018, 1e-9}, 0.01), Verdict::slower);
  EXPECT_EQ(judge({1.012, 1.004, 1.020, 1e-9}, 0.01), Verdict::unsure);
  EXPECT_EQ(judge({1.009, 1.006, 1.012, 1e-9}, 0.01), Verdict::unsure);
  EXPECT_EQ(judge({1.02, 0, HUGE_VAL, 1e-9}, 0.01), Verdict::unsure);
  EXPECT_EQ(judge({1.03, 1.02, 1.04, 1e-9}, 0.05), Verdict::same);
}

TEST(Compare, TenOfTheSameAreTheSameAndTenThreePercentSlowerAreSlower) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 10; ++trial) {
    const auto series = [&](double median) { return Rounds{noisy_samples(random, 100, median)}; };
    const Comparison same = compare({series(1e-3), series(1e-3)}), slower = compare({series(1e-3), series(1.03e-3)}),
                     faster = compare({series(1.03e-3), series(1e-3)});
    EXPECT_EQ(same.verdict, Verdict::same) << trial << ' ' << same.reason;
    EXPECT_EQ(slower.verdict, Verdict::slower) << trial << ' ' << slower.reason;
    EXPECT_EQ(faster.verdict, Verdict::faster) << trial << ' ' << faster.reason;
    EXPECT_EQ(same.method, "samples");
    EXPECT_NEAR(slower.time.ratio, 1.03, 0.003);
  }
}

TEST(Compare, TenInterleavedToo) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 10; ++trial) {
    const Comparison same = compare(interleaved(random, 10, 1.0), {.paired = true}),
                     slower = compare(interleaved(random, 10, 1.03), {.paired = true});
    EXPECT_EQ(same.verdict, Verdict::same) << trial << ' ' << same.reason;
    EXPECT_EQ(slower.verdict, Verdict::slower) << trial << ' ' << slower.reason;
    EXPECT_EQ(same.method, "paired");
    EXPECT_EQ(same.rounds_a, 10);
    EXPECT_EQ(same.samples_a, 150);
  }
}

// Runs that differ by 1 % from one another, as runs do: what looks at samples alone finds differences that are none.
TEST(Compare, LuckOfARunIsNoDifference) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  int wrong_by_rounds = 0, wrong_by_samples = 0;
  constexpr int kTrials = 100;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto run = [&] { return noisy_samples(random, 60, 1e-3 * (1 + 0.01 * normal(random))); };
    const auto wrong = [](Verdict v) { return v == Verdict::faster || v == Verdict::slower; };
    Rounds a, b;
    for (int i = 0; i < 8; ++i) {
      a.push_back(run());
      b.push_back(run());
    }
    const Comparison by_rounds = compare({a, b});
    EXPECT_EQ(by_rounds.method, "rounds");
    wrong_by_rounds += wrong(by_rounds.verdict);
    wrong_by_samples += wrong(compare({{a[0]}, {b[0]}}).verdict);
  }
  EXPECT_LE(wrong_by_rounds, 5);
  EXPECT_GE(wrong_by_samples, 10);  // why one run a side is not enough to tell small differences
}

TEST(Compare, ManyCasesAreHeldTogether) {
  std::mt19937_64 random(4);
  std::vector<ComparedCase> cases;
  for (int i = 0; i < 60; ++i)
    cases.push_back({{noisy_samples(random, 30, 1e-3, 0.05, 0.0)}, {noisy_samples(random, 30, 1e-3, 0.05, 0.0)}});
  cases.push_back({{noisy_samples(random, 100, 1e-3)}, {noisy_samples(random, 100, 1.1e-3)}});
  const std::vector<Comparison> results = compare_cases(cases, {});
  for (std::size_t i = 0; i < 60; ++i)
    EXPECT_EQ(results[i].verdict, Verdict::unsure) << i;  // 5 % of noise decides nothing
  EXPECT_EQ(results[60].verdict, Verdict::slower);
}

TEST(Compare, AChangeOfClockIsNoChangeOfCode) {
  std::mt19937_64 random(5);
  const auto at = [&](double time, double clock) {
    return Rounds{noisy_samples(random, 100, time, 0.004, 0.4, clock)};
  };
  // 5 % slower because the clock is 5 % lower.
  const Comparison clock = compare({at(1e-3, 1980), at(1.05e-3, 1980 / 1.05), true});
  EXPECT_EQ(clock.verdict, Verdict::unsure);
  EXPECT_CONTAINS(clock.reason, "SM clock 1980 MHz in A, 1886 MHz in B");
  ASSERT_TRUE(clock.cycles.has_value());
  EXPECT_NEAR(clock.cycles->ratio, 1.0, 0.003);
  // The same clocks confirm.
  EXPECT_EQ(compare({at(1e-3, 1980), at(1.05e-3, 1980), true}).verdict, Verdict::slower);
  // The same time at another clock: more cycles, unless memory is what takes the time.
  EXPECT_EQ(compare({at(1e-3, 1980), at(1e-3, 1755), true}).verdict, Verdict::unsure);
  EXPECT_EQ(compare({at(1e-3, 1980), at(1e-3, 1755), true, true}).verdict, Verdict::same);
  // On a host cycles do not count, and without clocks nothing is confirmed.
  EXPECT_EQ(compare({at(1e-3, 1980), at(1.05e-3, 1980 / 1.05), false}).verdict, Verdict::slower);
  const Comparison blind = compare({at(1e-3, kNotKnown), at(1.05e-3, 1980), true});
  EXPECT_EQ(blind.verdict, Verdict::slower);
  EXPECT_CONTAINS(blind.reason, "not confirmed in cycles");
}

TEST(Compare, SaysWhyItIsUnsure) {
  std::mt19937_64 random(6);
  const auto few = [&](int n) { return Rounds{noisy_samples(random, n, 1e-3)}; };
  EXPECT_CONTAINS(compare({few(7), few(100)}).reason, "7 and 100 samples are too few");
  EXPECT_CONTAINS(compare({{noisy_samples(random, 20, 1e-3, 0.05)}, {noisy_samples(random, 20, 1e-3, 0.05)}}).reason,
                  "measure longer");
  Rounds rejected = few(20);
  for (BenchSample& s : rejected[0]) s.rejected = true;
  EXPECT_CONTAINS(compare({rejected, few(20)}).reason, "no accepted samples");
  // Six pairs give p = 1/32 at best, which two cases together cannot use.
  std::vector<ComparedCase> two{interleaved(random, 6, 1.1), interleaved(random, 6, 1.1)};
  EXPECT_CONTAINS(compare_cases(two, {.paired = true})[0].reason, "more rounds");
  EXPECT_EQ(compare(two[0], {.paired = true}).verdict, Verdict::slower);
  EXPECT_CONTAINS(error_of([&] { compare(interleaved(random, 5, 1.0), {.paired = true}); }), "at least 6");
  EXPECT_CONTAINS(error_of([&] { compare({few(20), few(20)}, {.threshold = 0}); }), "above 0");
  EXPECT_CONTAINS(error_of([&] { compare({few(20), few(20)}, {.threshold = std::nan("")}); }), "above 0");
}

}  // namespace
}  // namespace mylos::measure
