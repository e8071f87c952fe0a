#include "measure/mfu.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

TEST(Mfu, KnownDevicesHaveDensePeaks) {
  const auto h200 = device_peak("NVIDIA H200"), h100 = device_peak("NVIDIA H100 80GB HBM3");
  ASSERT_TRUE(h200 && h100);
  EXPECT_EQ(h200->bf16, 989.4e12);
  EXPECT_EQ(h200->fp8, 1978.9e12);
  EXPECT_EQ(h100->bf16, h200->bf16);  // the same die; the H200 has more and faster memory
  for (const auto& d : {h200, h100}) {
    EXPECT_NEAR(d->bf16, 2 * d->tf32, 1e-3 * d->bf16);
    EXPECT_NEAR(d->fp8, 2 * d->bf16, 1e-3 * d->fp8);
  }
  EXPECT_LT(device_peak("NVIDIA H100 PCIe")->bf16, h100->bf16);
  EXPECT_EQ(device_peak("NVIDIA A100-SXM4-80GB")->bf16, 312e12);
}

TEST(Mfu, AnUnknownDeviceHasNone) {
  for (const char* name : {"", "Intel(R) Xeon(R) Processor", "NVIDIA GeForce RTX 4090", "NVIDIA H20", "NVIDIA H800",
                           "NVIDIA H100", "NVIDIA H200 MIG 1g.18gb", "AMD Instinct MI300X"})
    EXPECT_FALSE(device_peak(name)) << name;
}

TEST(Mfu, PeakFollowsTheDtype) {
  const DevicePeak d = *device_peak("NVIDIA H200");
  EXPECT_EQ(peak_of(d, DType::bf16), d.bf16);
  EXPECT_EQ(peak_of(d, DType::f32), d.tf32);
  EXPECT_EQ(peak_of(d, DType::i64), 0);
}

TEST(Mfu, SpeedOfLightAddsOpsAtTheirPeaks) {
  const DevicePeak d = *device_peak("NVIDIA H200");
  std::vector<model::OpCost> ledger{{"a", model::Phase::forward, 1, d.bf16, 0, DType::bf16},
                                    {"b", model::Phase::forward, 1, 3 * d.tf32, 0, DType::f32},
                                    {"c", model::Phase::optimizer, 1, 0, 1e9, DType::i32}};
  EXPECT_NEAR(*speed_of_light_s(ledger, d, 1), 4.0, 1e-12);
  EXPECT_NEAR(*speed_of_light_s(ledger, d, 4), 1.0, 1e-12);
  ledger[2].flops = 1;
  EXPECT_FALSE(speed_of_light_s(ledger, d, 1));  // no peak for i32
  EXPECT_FALSE(speed_of_light_s({}, d, 1));
}

TEST(SteadyWindow, LeavesTheStartOut) {
  for (std::int64_t n = 0; n < 2000; ++n) {
    const SteadyWindow w = steady_window(n);
    EXPECT_EQ(w.end, n);
    EXPECT_GE(w.first, n > 4 ? 3 : 0);
    EXPECT_LE(w.first, std::max<std::int64_t>(3, std::min<std::int64_t>(100, n / 5)));
    EXPECT_LT(w.first, std::max<std::int64_t>(1, w.end));
    EXPECT_EQ(w.short_run, n - w.first < 10);
  }
  EXPECT_EQ(steady_window(20).first, 4);
  EXPECT_EQ(steady_window(100'000).first, 100);
}

std::vector<double> normal(std::size_t n, std::mt19937_64& random) {
  std::vector<double> v(n);
  for (double& x : v) x = std::normal_distribution<>(5.0, 2.0)(random);
  return v;
}

TEST(MedianInterval, IsTheMedianAndDeterministic) {
  std::mt19937_64 random(test::test_seed());
  EXPECT_EQ(median_interval(std::vector<double>{3, 1, 2}).median, 2);
  EXPECT_EQ(median_interval(std::vector<double>{4, 1, 2, 3}).median, 2.5);
  const MedianInterval one = median_interval(std::vector<double>{7});
  EXPECT_EQ(one.low, 7);
  EXPECT_EQ(one.high, 7);
  for (const std::size_t n : {5u, 50u, 2047u, 2048u, 9000u}) {
    const auto v = normal(n, random);
    const MedianInterval a = median_interval(v, 9), b = median_interval(v, 9);
    EXPECT_EQ(a.low, b.low);
    EXPECT_EQ(a.high, b.high);
    EXPECT_LE(a.low, a.median);
    EXPECT_LE(a.median, a.high);
  }
  EXPECT_THROW(median_interval({}), Error);
  EXPECT_THROW(median_interval(std::vector<double>{1, NAN}), Error);
}

// The interval must hold the true median in about 95 % of samples: within five standard errors of 300 trials, both
// methods.
TEST(MedianInterval, CoversTheTrueMedian) {
  std::mt19937_64 random(test::test_seed());
  for (const std::size_t n : {41u, 2500u}) {
    int covered = 0;
    const int trials = 300;
    for (int t = 0; t < trials; ++t) {
      const MedianInterval i = median_interval(normal(n, random), std::uint64_t(t));
      covered += i.low <= 5.0 && 5.0 <= i.high;
    }
    EXPECT_GE(covered, 266) << n;
    EXPECT_LE(covered, trials - 1) << n;
  }
}

}  // namespace
}  // namespace mylos::measure
