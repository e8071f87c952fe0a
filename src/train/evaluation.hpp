// The loss on validation data: the same samples every time, in order, counted over valid tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/training_data.hpp"
#include "train/step.hpp"

namespace mylos::train {

struct Evaluation {
  double loss = 0;           // nats a token, over all sets
  double bits_per_byte = 0;  // NaN when the sidecars do not say how many bytes of text the tokens stand for
  std::int64_t tokens = 0;   // valid ones
  double time_s = 0;
  std::vector<SourceLoss> sets;  // each set's own
};

// Samples 0 .. limit - 1 (limit 0: all) of each set, in batches of `batch` sequences.
Evaluation evaluate(TrainStep& step, const Stream& stream, std::span<const data::NamedSamples> sets, std::int64_t batch,
                    std::int64_t limit);

}  // namespace mylos::train
