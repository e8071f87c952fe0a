// The 125M model of the reference (B 4, S 512; on a CPU the debug model, B 2, S 64): its configuration, memory and random batches.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/cases/cases.hpp"
#include "train/step.hpp"

namespace mylos::bench {

std::string network_name(const Place& place);
// Steps of training with an optimizer; f32 storage keeps gradients in f32.
train::Config network(const Place& place, optimizer::Rule rule, DType storage);

// A whole training step with its memory and batches; run it with queue().
class Training {
 public:
  Training(const train::Config& config, Pool& pool);  // throws NoRoom
  std::int64_t bytes() const { return arena_.capacity_bytes(); }
  // The next step on the next of two batches; waits for the step before the last.
  void queue();
  // The loss of the oldest queued step, nats a token.
  double finish();

 private:
  const Stream& stream_;
  Arena arena_;
  train::TrainStep step_;
  std::vector<data::HostBatch> batches_;
  std::int64_t next_ = 0;
};

}  // namespace mylos::bench
