// Learning rates as a function of the step, in double.
//
// Steps count from 0. Warm-up of w steps: (step + 1) / w of the peak, so step 0 trains and step w - 1 has the peak. From there cosine
// and linear fall to final_fraction of the peak at step length - 1 and stay there. The length is its own number: stopping a
// run early does not change the curve.
#pragma once

#include <cstdint>

#include "optimizer/config.hpp"

namespace mylos::optimizer {

class Schedule {
 public:
  // run_steps stands in for a length of 0. Throws Error when the warm-up is longer than the schedule.
  Schedule(const ScheduleConfig& config, std::int64_t run_steps);
  double learning_rate(std::int64_t step) const;
  std::int64_t length() const { return config_.length; }

 private:
  ScheduleConfig config_;
};

}  // namespace mylos::optimizer
