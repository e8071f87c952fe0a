// A small bench bundle for tests, and series of times as a machine gives them.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "measure/bench_record.hpp"

namespace mylos::test {

// Times of one call around `median`: neighbours resemble each other by `phi`, and one in 25 is disturbed (always upwards).
inline std::vector<measure::BenchSample> noisy_samples(std::mt19937_64& random, int n, double median_s,
                                                       double noise = 0.004, double phi = 0.4,
                                                       double clock_mhz = 1755) {
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> disturbed(1 / 0.05);
  std::vector<measure::BenchSample> samples;
  double x = normal(random);
  for (int i = 0; i < n; ++i) {
    x = phi * x + std::sqrt(1 - phi * phi) * normal(random);
    double time = median_s * (1 + noise * x);
    if (random() % 25 == 0) time *= 1 + disturbed(random);
    samples.push_back(
        {.time_s = time, .sm_clock_mhz = clock_mhz, .power_w = 500, .temperature_c = 50, .throttle_reasons = 0});
  }
  return samples;
}

inline measure::BenchCase sample_case(const std::string& name) {
  return {.name = name,
          .component = "forward",
          .dtype = "bf16",
          .on_device = true,
          .flops = 0,
          .bytes = 1e9,
          .work_source = "the test",
          .error = 1e-3,
          .bound = 1e-2,
          .check = "the test",
          .calls_per_sample = 10,
          .warm_up_calls = 100,
          .warm_up_s = 0.5,
          .stop = "width"};
}

struct SampleBench {
  measure::Bundle bundle;
  measure::BenchRecord record;

  explicit SampleBench(const std::string& path, bool is_gpu = false)
      : bundle(path, measure::BundleKind::bench), record(bundle, {"until stationary", "1 % or 5 s", "none"}) {
    bundle.set(measure::collect_provenance({"mylos-bench", "--bundle", path}));
    measure::Hardware hardware = measure::collect_hardware();
    hardware.is_gpu = is_gpu;
    bundle.set(hardware);
    bundle.set_config("[bench]\nbudget = 5.0\n");
  }
};

}  // namespace mylos::test
