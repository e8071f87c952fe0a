// Learning rates as a function of the step, in double.
//
// Steps count from 0. Warm-up of w steps: (step + 1) / w of the peak, so step 0 trains and step w - 1 has the peak. From there the
// curve falls to final_fraction of the peak at step length - 1 and stays there; constant never falls, wsd (warm-up, stable, decay;
// Hu et al. 2024) only in the last `cooldown` steps. With t the part of the fall that is done, what is left of it is
//   linear 1 - t;  cosine (1 + cos(pi t)) / 2;  1-sqrt 1 - sqrt(t) (Hägele et al. 2024);  rex (1 - t) / (1 - t/2) (Chen et al. 2021).
// The length is its own number: stopping a run early does not change the curve.
#pragma once

#include <cstdint>

#include "optimizer/config.hpp"

namespace mylos::optimizer {

class Schedule {
 public:
  // run_steps stands in for a length of 0. Throws Error when warm-up and cooldown are longer than the schedule.
  Schedule(const ScheduleConfig& config, std::int64_t run_steps);
  double learning_rate(std::int64_t step) const;
  std::int64_t length() const { return config_.length; }
  // Steps of wsd's fall; 0 for the other shapes.
  std::int64_t cooldown() const { return config_.cooldown; }

 private:
  ScheduleConfig config_;
};

}  // namespace mylos::optimizer
