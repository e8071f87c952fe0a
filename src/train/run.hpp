// A whole training run: plan, data, steps, evaluations, bundle, log and weights.
//
//   Runtime runtime({.threads = int(config.train.threads)});
//   RunResult r = run(load_config(path, overrides), {.out = &std::cout, .terminal = isatty(1), .command_line = ...});
//
// Ends early, with everything written and the bundle marked incomplete, on SIGINT or SIGTERM (after the step in progress) and when
// loss or gradient norm are not finite (weights and optimizer state stay those of the last good step). Two runs with the same
// configuration, build and number of threads give the same losses and weights to the bit.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "train/config.hpp"
#include "train/profile_steps.hpp"

namespace mylos::train {

struct RunOptions {
  std::ostream* out = nullptr;  // for people; none: silent
  bool terminal = false;        // out is one: the progress line may be rewritten
  std::vector<std::string> command_line;
  std::optional<ProfileRequest> profile = {};  // kernels of some steps, kept beside the run's bundle
};

enum class RunStatus { finished, stopped, diverged };

struct RunResult {
  RunStatus status = RunStatus::finished;
  std::int64_t steps = 0;                                             // good ones
  double loss = 0;                                                    // of the last good step
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  // stays so without validation data
  double validation_bits_per_byte = std::numeric_limits<double>::quiet_NaN();
  std::string message;  // one line: why it ended early
};

// config must be resolved. A Runtime must be alive.
RunResult run(const Config& config, const RunOptions& options);

}  // namespace mylos::train
