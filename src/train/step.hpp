// One optimizer step: micro-batches forward and backward, clip, update. docs/step.md walks through it.
//
// Memory is laid out in the constructor (categories of the model, "optimizer" and "batch"); a step allocates nothing. On a
// measuring arena it is the memory plan. The loss of a step is the sum over the valid tokens of all its micro-batches divided by their
// number, however they are split.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/samples.hpp"
#include "model/transformer.hpp"
#include "optimizer/adamw.hpp"
#include "plan/memory_plan.hpp"
#include "train/config.hpp"

namespace mylos::train {

// The device side of a micro-batch, filled from the host in one copy.
class DeviceBatch {
 public:
  // with_documents: attention gets document_start.
  DeviceBatch(std::int64_t batch, std::int64_t sequence, bool with_documents, Arena& arena);
  void upload(const Stream& stream, const data::HostBatch& host);
  const model::Batch& batch() const { return batch_; }

 private:
  Tensor all_;  // [4, B, S] i32
  model::Batch batch_;
  std::vector<std::int32_t> staging_;
};

// What a step needs beside the model: laid out after it in the same arena.
struct StepMemory {
  StepMemory(const Config& config, const model::ParameterLayout& layout, Arena& arena);

  optimizer::AdamW optimizer;
  DeviceBatch batch;
  Tensor loss_sum;  // [1] f64
};
// What TrainStep will take from an arena.
plan::MemoryPlan plan_run(const Config& config);

struct StepResult {
  double loss = 0;       // nats a token, mean over valid tokens
  double grad_norm = 0;  // before clipping
  std::int64_t valid_tokens = 0;
  // False: loss or norm is not a number, weights and optimizer state are those from before the step.
  bool finite = true;
};

class TrainStep {
 public:
  TrainStep(const Config& config, Arena& arena);

  void initialize(const Stream& stream);
  // micro_batches: train.accumulation of them. step counts from 0. Returns when the step is done on the device.
  StepResult run(const Stream& stream, std::int64_t step, double learning_rate,
                 std::span<const data::HostBatch> micro_batches);

  // Sum over valid tokens of the loss of one batch [B, S], without gradients.
  double loss_sum(const Stream& stream, const data::HostBatch& batch);

  const model::Transformer& model() const { return model_; }
  const optimizer::AdamW& optimizer() const { return memory_.optimizer; }

 private:
  std::uint64_t seed_;
  model::Transformer model_;
  StepMemory memory_;
};

}  // namespace mylos::train
