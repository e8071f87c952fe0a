#include "optimizer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace mylos::optimizer {

Schedule::Schedule(const ScheduleConfig& config, std::int64_t run_steps) : config_(config) {
  if (config_.length == 0) config_.length = run_steps;
  check(config_.length >= 1, "schedule.length is {}; it must be at least 1", config_.length);
  check(config_.warmup <= config_.length,
        "schedule.warmup is {} steps, longer than the schedule of {}; shorten it or set schedule.length",
        config_.warmup, config_.length);
}

double Schedule::learning_rate(std::int64_t step) const {
  check(step >= 0, "the learning rate of step {} was asked for; steps count from 0", step);
  const double peak = config_.learning_rate;
  if (step < config_.warmup) return peak * (double(step + 1) / double(config_.warmup));
  if (config_.shape == ScheduleShape::constant) return peak;
  const std::int64_t top = std::max<std::int64_t>(config_.warmup, 1) - 1;  // the step that has the peak
  const std::int64_t fall = config_.length - 1 - top;
  const double progress = fall > 0 ? std::min(1.0, double(step - top) / double(fall)) : (step > top ? 1.0 : 0.0);
  const double left =
      config_.shape == ScheduleShape::linear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return peak * (config_.final_fraction + (1.0 - config_.final_fraction) * left);
}

}  // namespace mylos::optimizer
