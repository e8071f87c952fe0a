// The step of a configuration, op by op: warm-up, then steps of the real TrainStep under an op clock.
//
// Batches are those that a run would read, or random tokens when data.train is empty; they are made before the clock starts, at most
// kMostBatches different steps of them, so data never waits. Recorded graphs are off: each op is queued on its own. A Runtime must be alive.
#pragma once

#include <cstdint>
#include <vector>

#include "measure/op_table.hpp"
#include "plan/memory_plan.hpp"
#include "train/config.hpp"

namespace mylos::train {

struct ProfileOptions {
  std::int64_t steps = 10;
  std::int64_t warmup = 3;
};

struct StepProfile {
  static constexpr std::int64_t kMostBatches = 8;
  Config config;  // as it ran: recomputation is chosen
  plan::MemoryPlan plan;
  measure::OpTable table;
  std::vector<double> step_s;  // device time of each step, end to end
  bool random_tokens = false;
};

// config must be resolved. Throws Error when it does not fit the device or a loss is not finite.
StepProfile profile(const Config& config, const ProfileOptions& options);

}  // namespace mylos::train
