// The rules of the harness on made-up series, and its command line.
#include "benchmarks/harness/rules.hpp"

#include <gtest/gtest.h>

#include <random>

#include "benchmarks/harness/google_flags.hpp"
#include "benchmarks/harness/options.hpp"
#include "measure/nvml.hpp"

namespace mylos::bench {
namespace {

std::vector<measure::BenchSample> normal_samples(std::size_t n, double relative_spread) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> time(1.0, relative_spread);
  std::vector<measure::BenchSample> samples(n);
  for (auto& s : samples) s.time_s = 1e-3 * std::max(0.1, time(random));
  return samples;
}

// How many stretches the warm-up takes.
template <class Time>
int stretches(WarmUp rule, double each_s, Time time) {
  for (int i = 1; i < 10000; ++i)
    if (rule.done(time(i), each_s)) return i;
  return -1;
}

TEST(WarmUp, EndsAtOnceOnASteadySeries) {
  EXPECT_EQ(stretches(WarmUp(0, 10), 0.01, [](int) { return 1.0; }), 10);
}

TEST(WarmUp, WaitsForAFallToEnd) {
  // A tenth less each stretch until stretch 40: no two groups of five are alike before.
  const int n = stretches(WarmUp(0, 100), 0.01, [](int i) { return 1.0 + std::max(0, 40 - i) * 0.1; });
  EXPECT_GE(n, 42);
  EXPECT_LE(n, 50);
}

TEST(WarmUp, OneOutlierIsNoTrend) {
  EXPECT_EQ(stretches(WarmUp(0, 10), 0.01, [](int i) { return i == 8 ? 5.0 : 1.0; }), 10);
}

TEST(WarmUp, LastsAtLeastSoLongAndAtMostItsPartOfTheBudget) {
  EXPECT_EQ(stretches(WarmUp(0.25, 10), 0.01, [](int) { return 1.0; }), 25);
  EXPECT_EQ(stretches(WarmUp(0, 1), 0.01, [](int i) { return double(i); }), 30);  // never stationary
  EXPECT_EQ(stretches(WarmUp(0, 1), 5, [](int) { return 1.0; }), 1);              // one call is more than the budget
}

TEST(Stop, NarrowSeriesEndByWidthWideOnesDoNot) {
  Stop narrow({.budget_s = 10, .target_width = 0.01});
  const auto quiet = normal_samples(20, 0.001);
  EXPECT_EQ(narrow.why(std::span(quiet).first(19), 0.1), "");
  EXPECT_EQ(narrow.why(quiet, 0.1), "width");
  Stop wide({.budget_s = 10, .target_width = 0.01});
  EXPECT_EQ(wide.why(normal_samples(20, 0.2), 0.1), "");
}

TEST(Stop, EndsByBudgetWithFiveSamplesAtLeast) {
  Stop rule({.budget_s = 1, .target_width = 0.001});
  const auto samples = normal_samples(30, 0.2);
  EXPECT_EQ(rule.why(std::span(samples).first(4), 2), "");
  EXPECT_EQ(rule.why(std::span(samples).first(5), 2), "budget");
  EXPECT_EQ(rule.why(std::span(samples).first(30), 0.5), "");
}

TEST(Stop, EndsByTheMostSamples) {
  Stop rule({.budget_s = 100, .target_width = 1e-6, .max_samples = 50});
  const auto samples = normal_samples(50, 0.2);
  EXPECT_EQ(rule.why(std::span(samples).first(49), 0.1), "");
  EXPECT_EQ(rule.why(samples, 0.1), "samples");
}

TEST(Stop, RejectedSamplesDoNotCount) {
  Stop rule({.budget_s = 10, .target_width = 0.01});
  auto samples = normal_samples(20, 0.0001);
  samples[3].rejected = true;
  EXPECT_EQ(rule.why(samples, 0.1), "");  // 19 of them
}

TEST(Reject, OnlySlowClocksWithAReason) {
  std::vector<measure::BenchSample> samples(10);
  for (auto& s : samples) s = {.time_s = 1, .sm_clock_mhz = 1980, .throttle_reasons = 0};
  samples[1].sm_clock_mhz = 1700;  // slow, no reason
  samples[2].sm_clock_mhz = 1700, samples[2].throttle_reasons = double(measure::kReasonHwThermal);
  samples[3].throttle_reasons = double(measure::kReasonHwThermal);  // a reason, not slow
  samples[4].sm_clock_mhz = 1700, samples[4].throttle_reasons = double(measure::kReasonPowerCap);
  samples[5].sm_clock_mhz = 1900, samples[5].throttle_reasons = double(measure::kReasonHwSlowdown);  // 4 %
  reject(samples);
  for (std::size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i].rejected, i == 2) << i;
}

TEST(Reject, DisturbedSamplesUnlessMostAre) {
  auto samples = normal_samples(6, 1);
  reject(samples, {true, false, false, true, false, false});
  for (std::size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i].rejected, i == 0 || i == 3) << i;
  reject(samples, {true, true, true, true, false, false});
  for (const auto& s : samples) EXPECT_FALSE(s.rejected);
}

TEST(Reject, NothingWithoutReadings) {
  auto samples = normal_samples(10, 1);
  reject(samples);
  for (const auto& s : samples) EXPECT_FALSE(s.rejected);
}

TEST(Options, ReadsFlagsInBothForms) {
  const Options o = parse({"swiglu", "--budget", "3.5", "--bundle=a.h5", "--quick", "--target_width=0.005"});
  EXPECT_EQ(o.patterns, std::vector<std::string>{"swiglu"});
  EXPECT_EQ(o.budget_s, 3.5);
  EXPECT_EQ(o.target_width, 0.005);
  EXPECT_EQ(o.bundle, "a.h5");
  EXPECT_TRUE(o.quick);
  EXPECT_FALSE(o.sample_s.has_value());
}

TEST(Options, WrongOnesAreNamed) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--bugdet", "1"},
                                                {"--budget"},
                                                {"--budget", "-1"},
                                                {"--budget=nan"},
                                                {"--budget=1x"},
                                                {"--bundle="},
                                                {"--threads", "1.5"},
                                                {"--threads", "513"},
                                                {"--list=1"},
                                                {"--pool", "0.0001"},
                                                {"--bundle", "a", "--bundle", "b"},
                                                {"--budget=1", "--budget", "2"},
                                                {""}})
    EXPECT_THROW(parse(wrong), UsageError) << wrong.front();
  try {
    parse({"--bugdet", "1"});
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("--budget"), std::string::npos) << e.what();
  }
}

TEST(GoogleFlags, OnlyThoseOfOutput) {
  const GoogleFlags none = google_flags({});
  EXPECT_TRUE(none.own_table);
  EXPECT_EQ(none.out, "");
  const GoogleFlags some =
      google_flags({"--benchmark_out=f", "--benchmark_out_format=console", "--benchmark_format=json",
                    "--benchmark_counters_tabular", "--benchmark_context=a=b"});
  EXPECT_FALSE(some.own_table);
  EXPECT_EQ(some.out, "f");
  EXPECT_EQ(some.format, "console");
  const auto why = [](const std::string& flag) {
    try {
      google_flags({flag});
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(why("--benchmark_filter=x").find("patterns"), std::string::npos);
  EXPECT_NE(why("--benchmark_repetitions=2").find("tools/compare"), std::string::npos);
  EXPECT_NE(why("--benchmark_min_time=2").find("--budget"), std::string::npos);
  EXPECT_NE(why("--benchmark_formt=json").find("did you mean '--benchmark_format'"), std::string::npos);
  EXPECT_NE(why("--benchmark_zzzzzzzzzzzzzzzzzzz").find("there are --benchmark_format"), std::string::npos);
  EXPECT_NE(why("--benchmark_format=xml"), "");
  EXPECT_NE(why("--benchmark_out="), "");
}

TEST(Select, FindsByPatternInOrderAndNamesWhatFitsNothing) {
  const std::vector<std::string> names{"ops/7b/rope/bf16", "ops/7b/swiglu/bf16", "harness/null"};
  EXPECT_EQ(select(names, {}).size(), 3u);
  EXPECT_EQ(select(names, {"null", "^ops/.*rope"}), (std::vector<std::size_t>{0, 2}));
  EXPECT_THROW(select(names, {"rope", "nothing"}), UsageError);
  EXPECT_THROW(select(names, {"("}), UsageError);
}

}  // namespace
}  // namespace mylos::bench
