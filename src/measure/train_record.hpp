// The series of a training run in a bundle, and what is computed from them.
//
//   TrainRecord record(bundle, {.flops = plan.flops_per_token, .device = hardware.device_name, .storage = storage});
//   record.step({...}); bundle.maybe_publish();      // each step
//   record.evaluation({...}); record.status("finished"); bundle.finish();
//
// Tables are /samples/steps and /samples/evaluation, and in runs with several sources /samples/sources and
// /samples/evaluation_sets. Before each publish, /summary gets the steady window, tokens/s
// over that window and as a median with its 95 % interval, and losses; /derived each MFU under its definition's name,
// or the reason why there is none.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "measure/bundle.hpp"
#include "measure/mfu.hpp"
#include "tensor/dtype.hpp"

namespace mylos::measure {

// What a step, or an evaluation, learned of one source of its data.
struct SourceSample {
  std::size_t source = 0;         // in RunFacts::sources, or validation_sets
  double loss = 0;                // nats a token, mean over its valid tokens
  std::int64_t valid_tokens = 0;  // of it
  double epochs = 0;              // of the source that were read by the end of the step
};

struct StepSample {
  std::int64_t step = 0;  // 1 is the first optimizer step
  double loss = 0;        // nats a token, mean over the step's valid tokens
  double grad_norm = 0;   // before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;        // processed in this step, on all devices
  std::int64_t valid_tokens = 0;  // that counted in the loss
  double step_time_s = 0;  // data wait included, evaluation and checkpoints not; times of consecutive steps add up
  double data_wait_s = 0;
  double end_s = std::numeric_limits<double>::quiet_NaN();  // when it ended, since the begin of the run; NaN: not known
  std::vector<SourceSample> sources{};  // those that had a valid token; empty in a run with one source
};

struct EvaluationSample {
  std::int64_t step = 0;     // optimizer steps taken before
  double loss = 0;           // nats a token on validation data
  double bits_per_byte = 0;  // NaN when the bytes of the text are not known
  std::int64_t tokens = 0;
  double time_s = 0;
  std::vector<SourceSample> sets{};  // each validation set; empty with one
};

struct RunFacts {
  model::ModelFlops flops{};  // FLOPs a token (plan::MemoryPlan::flops_per_token)
  std::string device;         // Hardware::device_name
  std::int64_t devices = 1;
  DType storage = DType::f32;  // which peak MFU is held against
  bool documents = false;      // attention stayed inside documents: MFU, which counts whole rows, then says too much
  std::vector<std::string> sources{}, validation_sets{};  // names; with more than one, tables of each are kept
};

class TrainRecord {
 public:
  TrainRecord(Bundle& bundle, const RunFacts& facts);  // the bundle must outlive it and is not copied
  void step(const StepSample& sample);
  void evaluation(const EvaluationSample& sample);
  // "running" (set by the constructor), "finished", "stopped" (by a signal), "failed: <why>"
  void status(const std::string& status);

 private:
  void summarize(Bundle& bundle) const;

  Bundle& bundle_;
  RunFacts facts_;
  int steps_, evaluations_;
  int sources_ = -1, sets_ = -1;  // -1: not kept
};

}  // namespace mylos::measure
