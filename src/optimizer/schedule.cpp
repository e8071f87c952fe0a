#include "optimizer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace mylos::optimizer {
namespace {

enum class Fall { linear, cosine, one_minus_sqrt, rex };

Fall fall_of(const ScheduleConfig& c) {
  if (c.shape == ScheduleShape::linear) return Fall::linear;
  if (c.shape == ScheduleShape::rex) return Fall::rex;
  if (c.shape == ScheduleShape::cosine) return Fall::cosine;
  return c.cooldown_shape == Cooldown::linear   ? Fall::linear
         : c.cooldown_shape == Cooldown::cosine ? Fall::cosine
                                                : Fall::one_minus_sqrt;
}

// 1 at t = 0, 0 at t = 1.
double left_of(Fall fall, double t) {
  switch (fall) {
    case Fall::linear:
      return 1.0 - t;
    case Fall::cosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * t));
    case Fall::one_minus_sqrt:
      return 1.0 - std::sqrt(t);
    case Fall::rex:
      break;
  }
  return (1.0 - t) / (1.0 - 0.5 * t);
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config, std::int64_t run_steps) : config_(config) {
  if (config_.length == 0) config_.length = run_steps;
  check(config_.length >= 1, "schedule.length is {}; it must be at least 1", config_.length);
  check(config_.warmup <= config_.length,
        "schedule.warmup is {} steps, longer than the schedule of {}; shorten it or set schedule.length",
        config_.warmup, config_.length);
  if (config_.shape != ScheduleShape::wsd) {
    check(config_.cooldown == 0 && config_.cooldown_shape == Cooldown::linear,
          "schedule.cooldown and schedule.cooldown_shape are of schedule.shape = \"wsd\"; leave them out");
    return;
  }
  const std::int64_t room = config_.length - config_.warmup;
  if (config_.cooldown == 0) config_.cooldown = std::min(room, (config_.length + 4) / 5);
  check(config_.cooldown <= room,
        "schedule.cooldown is {} steps, but schedule.warmup ({}) leaves {} of the schedule's {}; shorten one of them "
        "or set "
        "schedule.length",
        config_.cooldown, config_.warmup, room, config_.length);
}

double Schedule::learning_rate(std::int64_t step) const {
  check(step >= 0, "the learning rate of step {} was asked for; steps count from 0", step);
  const double peak = config_.learning_rate;
  if (step < config_.warmup) return peak * (double(step + 1) / double(config_.warmup));
  if (config_.shape == ScheduleShape::constant) return peak;
  // The last step that has the peak; the fall takes the steps after it.
  std::int64_t top = std::max<std::int64_t>(config_.warmup, 1) - 1;
  if (config_.shape == ScheduleShape::wsd) top = std::max(top, config_.length - 1 - config_.cooldown);
  const std::int64_t fall = config_.length - 1 - top;
  const double t = fall > 0 ? std::clamp(double(step - top) / double(fall), 0.0, 1.0) : (step > top ? 1.0 : 0.0);
  return peak * (config_.final_fraction + (1.0 - config_.final_fraction) * left_of(fall_of(config_), t));
}

}  // namespace mylos::optimizer
