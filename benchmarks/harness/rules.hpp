// When a series of times is stationary, when there are enough of them, and which do not count: rules without a clock.
//
// Warm-up: stretches are timed until the median of the last five is within 2 % of the median of the five before, for at least least_s; or
// until 30 % of the budget is spent.
// Stop: the 95 % interval of the median of what counts is narrower than the target, at least min_samples of them ("width"); or the budget
// is spent and there are least_samples ("budget"); or there are max_samples ("samples"). The interval is asked for at growing numbers of samples.
// Reject: the SM clock is more than 5 % below the case's median clock while the device says that hardware or heat slow it down. The power
// cap is no such reason: under load it is the device's usual state, and is recorded. Of work on one thread of the host: other programs were
// given its processor and it ran for less than 98 % of the sample; unless that is so for more than half of the samples, and then says nothing
// about any of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "measure/bench_record.hpp"

namespace mylos::bench {

struct StopOptions {
  double budget_s = 2, target_width = 0.01;
  std::int64_t least_samples = 5, min_samples = 20, max_samples = 2000;
};

class WarmUp {
 public:
  static constexpr std::size_t kGroup = 5;
  static constexpr double kClose = 0.02;
  static constexpr double kPart = 0.3;  // of the budget
  static const char* const kRule;

  WarmUp(double least_s, double budget_s) : least_s_(least_s), most_s_(kPart * budget_s) {}
  // Takes the time of a stretch (any unit) and what it took of the budget; true: begin to measure.
  bool done(double time, double spent_s);
  bool stationary() const;

 private:
  std::vector<double> times_;
  double least_s_, most_s_, spent_s_ = 0;
};

class Stop {
 public:
  static const char* const kRule;

  explicit Stop(const StopOptions& options) : options_(options), next_(options.min_samples) {}
  // Why to stop after `samples`, which took spent_s; empty: go on.
  std::string why(std::span<const measure::BenchSample> samples, double spent_s);

 private:
  StopOptions options_;
  std::int64_t next_;  // samples at which the interval is asked for
};

extern const char* const kRejectRule;
// Sets `rejected` of each sample by the clocks and reasons of all of them, and by what disturbed them; `disturbed` may be empty.
void reject(std::span<measure::BenchSample> samples, const std::vector<bool>& disturbed = {});

// What other programs take from this process, between construction and other_programs().
class Disturbance {
 public:
  Disturbance();
  bool other_programs(double seconds) const;  // of the wall, since then; for a process that works on one thread

 private:
  double processor_s_;
  long involuntary_;
};

}  // namespace mylos::bench
