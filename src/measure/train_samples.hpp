// The raw series of a `train` or `peer` bundle read back, and whether they can be those of a run at all.
//
// Rules of single values are one table (train_samples.cpp): tokens, steps and masks are whole and in their range, times finite and positive,
// counters rise. A loss or gradient norm that is not finite is legal where the run says that it failed; a peer may not know its losses,
// gradients and learning rate (NaN). tokens_per_s is tokens over step_time; a step ends no earlier than its step_time after the one before it.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/store.hpp"
#include "measure/inspect.hpp"
#include "measure/train_figures.hpp"

namespace mylos::measure {

struct TrainSamples {
  bool has_gpu = false;  // /telemetry/gpu
  std::vector<double> loss, tokens, step_time, data_wait, tokens_per_s, time;
  std::vector<double> evaluation_loss, evaluation_bits_per_byte;
  std::vector<double> gpu_time, gpu_energy, gpu_sm_clock, gpu_throttle_reasons, gpu_memory_used;

  StepSeries steps() const { return {loss, tokens, step_time, data_wait, tokens_per_s, time}; }
  EvaluationSeries evaluations() const { return {evaluation_loss, evaluation_bits_per_byte}; }
  GpuSeries gpu() const { return {gpu_time, gpu_energy, gpu_sm_clock, gpu_throttle_reasons}; }
};

struct TrainKind {
  bool is_peer = false;
  bool failed = false;  // the status of the run says so
};
// Adds what is wrong to `findings`; from samples with an error nothing may be computed.
TrainSamples read_train_samples(const checkpoint::Reader& file, const TrainKind& kind, std::vector<Finding>& findings);

}  // namespace mylos::measure
