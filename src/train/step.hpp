// One optimizer step: micro-batches forward and backward, clip, update. docs/step.md walks through it.
//
// Memory is laid out in the constructor (categories of the model, "optimizer" and "batch"); a step allocates nothing. On a
// measuring arena it is the memory plan. The loss of a step is the sum over the valid tokens of all its micro-batches divided by their
// number, however they are split.
//
// queue() returns as soon as everything is in the device's queue; loss and norm come back with finish(), in order. A step
// that is not finite stops all that were queued after it: none of them changes weights or optimizer state.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/samples.hpp"
#include "model/transformer.hpp"
#include "optimizer/registry.hpp"
#include "plan/memory_plan.hpp"
#include "tensor/async.hpp"
#include "train/config.hpp"
#include "train/device_batch.hpp"

namespace mylos::train {

// What a step needs beside the model: laid out after it in the same arena.
struct StepMemory {
  StepMemory(const Config& config, const model::ParameterLayout& layout, Arena& arena);

  std::unique_ptr<optimizer::Optimizer> optimizer;
  DeviceBatch batch;
  Tensor grad_scale;  // [1] f32
  Tensor row_loss;    // [B] f64, of the last micro-batch
};
// What TrainStep will take from an arena. train.recompute "auto" is planned as with_recompute() chooses.
plan::MemoryPlan plan_run(const Config& config);
// What a run may plan with: on a GPU its memory but for 2 GiB, which driver and libraries take; on a CPU 15/16 of what host and control
// groups leave to this process now.
std::int64_t memory_for_run();
// train.recompute "auto" becomes the fastest policy whose plan fits: none, else selective in as few blocks as it takes, else full
// in as few blocks, the rest selective (also when that does not fit: plan::check_fits says what would). Other policies stay.
Config with_recompute(Config config, std::int64_t memory_bytes);
// train.swiglu "auto" becomes "fused" or "backward" where this device gains by it, else "apart". Others stay.
Config with_swiglu(Config config);

// What a step learned of one source of its data.
struct SourceLoss {
  double loss_sum = 0;  // nats, over valid tokens
  std::int64_t valid_tokens = 0;
};

struct StepResult {
  double loss = 0;                  // nats a token, mean over valid tokens
  std::vector<SourceLoss> sources;  // by HostBatch::sources, up to the largest of the step
  double grad_norm = 0;             // before clipping
  std::int64_t valid_tokens = 0;
  // From the end of the step before (or set_off()) to the end of this one, as the device saw it: what it waited for the
  // host is in it, how long the host took to hear of it is not.
  double time_s = 0;
  // False: loss or norm is not a number, weights and optimizer state are those from before the step.
  bool finite = true;
};

class TrainStep {
 public:
  static constexpr std::size_t kMostQueued = 2;

  TrainStep(const Config& config, Arena& arena);

  void initialize(const Stream& stream);
  // The next step's time counts from here: at the begin of a run and after an evaluation. No step is queued.
  void set_off(const Stream& stream);
  // micro_batches: train.accumulation of them; the device reads their memory later (HostBatch::sent). step counts from 0.
  // Throws Error when kMostQueued steps are queued already.
  void queue(const Stream& stream, std::int64_t step, double learning_rate,
             std::span<const data::HostBatch> micro_batches);
  std::size_t queued() const { return pending_.size(); }
  // The result of the oldest queued step; waits until the device has done it.
  StepResult finish();
  // Both: returns when the step is done on the device.
  StepResult run(const Stream& stream, std::int64_t step, double learning_rate,
                 std::span<const data::HostBatch> micro_batches);

  // Sum over valid tokens of the loss of one batch [B, S], without gradients.
  double loss_sum(const Stream& stream, const data::HostBatch& batch);

  // Whether a micro-batch is recorded once and replayed (train.graphs); an observer of the ops in a step wants false.
  void use_graphs(bool use) {
    graphs_ = use;
    memory_.optimizer->use_graphs(use);
  }

  const model::Transformer& model() const { return model_; }
  const optimizer::Optimizer& optimizer() const { return *memory_.optimizer; }

  // While it lives the model has the weights that are evaluated and saved: with schedule_free the average of its steps, while those of
  // training wait in the gradients' memory, to come back to the bit; else those of training. No step is queued meanwhile.
  class EvaluationWeights {
   public:
    EvaluationWeights(TrainStep& step, const Stream& stream);
    ~EvaluationWeights();
    EvaluationWeights(const EvaluationWeights&) = delete;
    EvaluationWeights& operator=(const EvaluationWeights&) = delete;

   private:
    TrainStep* step_;  // none: nothing to bring back
    const Stream& stream_;
  };

 private:
  struct Row {
    std::int32_t source, valid_tokens;
  };
  struct Pending {
    std::size_t slot;
    std::int64_t valid_tokens;
    std::vector<Row> rows;  // of all micro-batches
  };
  // Of a slot in results_: the scale of the gradients on its way up, norm and scale of the clipping and the loss of each row
  // on their way back.
  std::int64_t result_at(std::size_t slot) const;
  void micro_batch(const Stream& stream, bool first);

  std::uint64_t seed_;
  model::Transformer model_;
  StepMemory memory_;
  bool graphs_;
  static constexpr std::size_t kMostRecorded = 64;
  // By `first` and the lengths of documents; none: it ran once.
  std::map<std::pair<bool, kernels::AttentionBucket>, std::optional<Graph>> recorded_;
  std::int64_t batch_rows_, result_bytes_;
  std::unique_ptr<HostBuffer> results_;
  bool averaged_ = false;                                 // EvaluationWeights are there
  static constexpr std::size_t kSlots = kMostQueued + 1;  // the end of the last finished step is kept
  std::array<Event, kSlots> done_;
  Event* before_ = nullptr;  // the end of the step before the oldest queued one
  Event set_off_;
  std::deque<Pending> pending_;
  std::size_t next_slot_ = 0;
};

}  // namespace mylos::train
