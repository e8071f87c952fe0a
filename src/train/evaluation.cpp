#include "train/evaluation.hpp"

#include <chrono>
#include <limits>
#include <numbers>

#include "base/error.hpp"

namespace mylos::train {

namespace {

SourceLoss evaluate_set(TrainStep& step, const Stream& stream, const data::SampleSet& samples, std::int64_t batch,
                        std::int64_t limit) {
  const data::BatchLayout layout{.batch = batch};
  const std::int64_t batches = data::evaluation_batches(samples, layout, limit);
  SourceLoss result;
  data::HostBatch host;
  for (std::int64_t b = 0; b < batches; ++b) {
    data::make_evaluation_batch(samples, layout, limit, b, host);
    if (host.valid_tokens == 0) continue;
    result.loss_sum += step.loss_sum(stream, host);
    result.valid_tokens += host.valid_tokens;
  }
  return result;
}

}  // namespace

Evaluation evaluate(TrainStep& step, const Stream& stream, std::span<const data::NamedSamples> sets, std::int64_t batch,
                    std::int64_t limit) {
  const auto begin = std::chrono::steady_clock::now();
  const TrainStep::EvaluationWeights weights(step, stream);
  Evaluation result;
  double loss_sum = 0, text_bytes = 0;
  for (const data::NamedSamples& set : sets) {
    const SourceLoss one = evaluate_set(step, stream, set.samples(), batch, limit);
    check(one.valid_tokens > 0, "validation set '{}' has no token to evaluate; it needs more than train.sequence ({})",
          set.name(), set.samples().options().sequence);
    const data::TokenSource& source = set.tokens();
    text_bytes += source.text_bytes() > 0
                      ? double(one.valid_tokens) * double(source.text_bytes()) / double(source.size())
                      : std::numeric_limits<double>::quiet_NaN();
    loss_sum += one.loss_sum;
    result.tokens += one.valid_tokens;
    result.sets.push_back(one);
  }
  result.loss = loss_sum / double(result.tokens);
  result.bits_per_byte = loss_sum / std::numbers::ln2 / text_bytes;
  result.time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace mylos::train
