#include "benchmarks/harness/rules.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "measure/nvml.hpp"
#include "measure/statistics.hpp"

namespace mylos::bench {

const char* const WarmUp::kRule =
    "stretches until the median of five is within 2 % of the median of the five before (on a GPU 0.25 s at "
    "least, but for the quick list), or 30 % of the budget";
const char* const Stop::kRule =
    "width: the 95 % interval of the median is narrower than the target, from the least number of samples on; budget: "
    "the time for the case is spent, and there are five at least; samples: the most that are taken";
const char* const kRejectRule =
    "SM clock more than 5 % below the case's median while NVML says that hardware or heat slow the device down; the "
    "power cap is recorded and no reason. One thread of the host: involuntary context switches and a share of the "
    "processor below 98 %, unless more than half of the samples are so";

bool WarmUp::stationary() const {
  if (times_.size() < 2 * kGroup) return false;
  const std::span<const double> last(times_.end() - kGroup, kGroup), before(times_.end() - 2 * kGroup, kGroup);
  const double a = measure::median(before), b = measure::median(last);
  return std::abs(b - a) <= kClose * a;
}

bool WarmUp::done(double time, double spent_s) {
  times_.push_back(time);
  spent_s_ += spent_s;
  return (stationary() && spent_s_ >= least_s_) || spent_s_ >= most_s_;
}

std::string Stop::why(std::span<const measure::BenchSample> samples, double spent_s) {
  const auto n = std::int64_t(samples.size());
  const bool spent = spent_s >= options_.budget_s && n >= options_.least_samples,
             last = spent || n >= options_.max_samples;
  if (n >= next_ || (last && n >= options_.min_samples)) {
    next_ = std::max(n + 1, n + n / 4);
    std::vector<double> times;
    for (const measure::BenchSample& s : samples)
      if (!s.rejected) times.push_back(s.time_s);
    if (std::int64_t(times.size()) >= options_.min_samples &&
        measure::relative_width(measure::sample_interval(times)) < options_.target_width)
      return "width";
  }
  return spent ? "budget" : last ? "samples" : "";
}

void reject(std::span<measure::BenchSample> samples, const std::vector<bool>& disturbed) {
  constexpr std::uint64_t kSlowed =
      measure::kReasonHwSlowdown | measure::kReasonSwThermal | measure::kReasonHwThermal | measure::kReasonPowerBrake;
  constexpr double kFar = 0.95;
  std::vector<double> clocks;
  for (const measure::BenchSample& s : samples)
    if (std::isfinite(s.sm_clock_mhz)) clocks.push_back(s.sm_clock_mhz);
  const double usual = clocks.empty() ? 0 : measure::median(clocks);
  const bool some = 2 * std::count(disturbed.begin(), disturbed.end(), true) <= std::ptrdiff_t(disturbed.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    measure::BenchSample& s = samples[i];
    const bool slowed = s.sm_clock_mhz < kFar * usual && std::isfinite(s.throttle_reasons) &&
                        (std::uint64_t(s.throttle_reasons) & kSlowed) != 0;
    s.rejected = slowed || (some && i < disturbed.size() && disturbed[i]);
  }
}

namespace {

struct Usage {
  double processor_s;
  long involuntary;
};
Usage usage() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return {seconds(u.ru_utime) + seconds(u.ru_stime), u.ru_nivcsw};
}

}  // namespace

Disturbance::Disturbance() {
  const Usage u = usage();
  processor_s_ = u.processor_s;
  involuntary_ = u.involuntary;
}

bool Disturbance::other_programs(double seconds) const {
  constexpr double kShare = 0.98;
  const Usage u = usage();
  return u.involuntary > involuntary_ && u.processor_s - processor_s_ < kShare * seconds;
}

}  // namespace mylos::bench
