#include "train/profile_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/files.hpp"
#include "measure/kernel_trace_bundle.hpp"
#include "measure/kernel_trace_json.hpp"
#include "measure/statistics.hpp"
#include "train/record.hpp"

namespace mylos::train {
namespace {

constexpr std::size_t kShownKernels = 20;
// Libraries load in the first step, the second is recorded as a graph, the third is the first to replay it.
constexpr std::int64_t kFirstSteadyStep = 4;

}  // namespace

StepProfiler::StepProfiler(const Config& config, const ProfileRequest& request)
    : bundle_(request.bundle), timeline_(request.timeline) {
  const std::int64_t steps = config.train.steps;
  check(steps >= 2,
        "a run of {} step cannot be profiled: one step is needed before the profiled ones; set train.steps=2 or more",
        steps);
  count_ = request.steps.value_or(std::min(ProfileRequest::kUsualSteps, steps - request.after.value_or(1)));
  const std::int64_t after =
      request.after.value_or(std::max<std::int64_t>(1, std::min(ProfileRequest::kUsualAfter, steps - count_)));
  check(after >= 1 && count_ >= 1 && count_ <= ProfileRequest::kMostSteps && count_ <= steps - after,
        "{} steps after step {} cannot be profiled in a run of {}: 1 to {} steps can, after step 1 or later; change "
        "--profile-steps, "
        "--profile-after or train.steps",
        count_, after, steps, ProfileRequest::kMostSteps);
  first_ = after + 1;
  if (bundle_.empty()) bundle_ = std::filesystem::path(config.output.bundle).replace_extension(".profile.h5").string();
  std::vector<std::string> files{config.output.bundle, config.output.weights, config.output.log};
  for (const std::string& file : {bundle_, timeline_}) {
    if (file.empty()) continue;
    check(std::none_of(files.begin(), files.end(), [&](const std::string& other) { return is_same_file(file, other); }),
          "'{}' is an output twice; give each a name of its own", file);
    check_output(config, file);
    files.push_back(file);
  }
  trace_ = std::make_unique<measure::KernelTrace>();
}

void StepProfiler::before_step(std::int64_t step) {
  if (done_) return;
  if (step == first_ - 1) trace_->start();
  if (step >= first_ - 1) trace_->mark(std::int32_t(step));
}

void StepProfiler::outside_steps() {
  if (!done_) trace_->mark(measure::KernelRecord::kNoMark);
}

void StepProfiler::note(std::int64_t step, double time_s) {
  last_noted_ = step;
  const bool recorded = step == first_ - 1;
  if ((step >= kFirstSteadyStep && step < first_ - 1) || (recorded && before_s_.empty())) before_s_.push_back(time_s);
  if (step >= first_ && step < first_ + count_) within_s_.push_back(time_s);
}

std::string StepProfiler::finish(const std::function<void(measure::Bundle&)>& fill) {
  done_ = true;
  measure::KernelProfile p;
  p.records = trace_->stop();
  trace_.reset();
  p.windows = measure::step_windows(p.records, std::int32_t(first_), std::int32_t(count_));
  p.table = measure::kernel_table(p.records, p.windows);

  measure::Bundle bundle(bundle_, measure::BundleKind::profile);
  fill(bundle);
  measure::put_kernels(bundle, p);
  const double before_s = measure::median(before_s_), within_s = measure::median(within_s_);
  bundle.set_summary(
      "step_time_before", before_s,
      {"s",
       "median of the steps before it from the fourth on, which were not recorded (of a short run: the step before)"});
  bundle.set_summary("step_time_run", within_s, {"s", "median of the profiled steps, as the run timed them"});
  bundle.finish();

  std::string text =
      fmt::format("\nprofile of steps {} to {}: {:.3f} ms a step ({:.3f} ms before it), by {}\n{}profile {}", first_,
                  first_ + count_ - 1, 1e3 * p.table.window_s / double(count_), 1e3 * before_s, p.records.source,
                  to_text(p.table, p.records, kShownKernels), bundle_);
  if (!timeline_.empty()) {
    const std::int64_t left_out = measure::write_timeline(timeline_, p.records, p.windows, p.table);
    text += fmt::format("\ntimeline {}{}", timeline_,
                        left_out > 0 ? fmt::format(" without the last {} events: it holds at most {}", left_out,
                                                   measure::kMostTimelineEvents)
                                     : "");
  }
  return text + "\n";
}

}  // namespace mylos::train
