// Some steps of a training run, kernel by kernel: what `mylos train --profile` leaves beside the run's own bundle.
//
//   StepProfiler profiler(config, request);           // before the first step; checks files and steps
//   if (profiler.starts_or_ends_at(step)) ...         // no step is queued then
//   profiler.before_step(step);                       // each step, before it is queued
//   profiler.note(step, time_s);                      // the time that the run measured
//   text = profiler.finish(record);                   // once, when the last profiled step is done
//
// Steps count from 1. The step before the first profiled one is recorded too, as its end is where the profile begins. Steps are queued as in
// any run, graphs included; recording costs some time on the host, so the bundle also has the time of steps that were not recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "measure/bundle.hpp"
#include "measure/kernel_trace.hpp"
#include "train/config.hpp"

namespace mylos::train {

struct ProfileRequest {
  static constexpr std::int64_t kUsualAfter = 10, kUsualSteps = 3, kMostSteps = 100;
  std::optional<std::int64_t> after = {}, steps = {};  // none: the usual, or as many as the run has
  std::string bundle = {};                             // file; empty: output.bundle with .profile.h5 for its suffix
  std::string timeline = {};                           // file; empty: none
};

class StepProfiler {
 public:
  // Throws Error when the run is too short for the request, a file is in the way, or kernels cannot be recorded here.
  StepProfiler(const Config& config, const ProfileRequest& request);
  // Whether the run must have nothing queued before this step.
  bool starts_or_ends_at(std::int64_t step) const { return step == first_ - 1 || step == first_ + count_; }
  bool done() const { return done_; }
  bool whole() const { return last_noted_ >= first_ + count_ - 1; }
  void before_step(std::int64_t step);
  void outside_steps();  // what is queued from here on, such as an evaluation, is of no step
  void note(std::int64_t step, double time_s);
  // Writes bundle and timeline, and returns what to show. `fill` puts configuration, machine and plan into the bundle. Nothing is queued.
  std::string finish(const std::function<void(measure::Bundle&)>& fill);

 private:
  std::string bundle_, timeline_;
  std::int64_t first_, count_;
  std::int64_t last_noted_ = 0;
  bool done_ = false;
  std::vector<double> before_s_;  // times of the steps before
  std::vector<double> within_s_;  // as the run measured the profiled ones
  std::unique_ptr<measure::KernelTrace> trace_;
};

}  // namespace mylos::train
