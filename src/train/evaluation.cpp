#include "train/evaluation.hpp"

#include <chrono>
#include <limits>
#include <numbers>

#include "base/error.hpp"

namespace mylos::train {

Evaluation evaluate(TrainStep& step, const Stream& stream, const data::SampleSet& samples, std::int64_t batch,
                    std::int64_t limit) {
  const auto begin = std::chrono::steady_clock::now();
  const data::BatchLayout layout{.batch = batch};
  const std::int64_t batches = data::evaluation_batches(samples, layout, limit);
  Evaluation result;
  double sum = 0;
  data::HostBatch host;
  for (std::int64_t b = 0; b < batches; ++b) {
    data::make_evaluation_batch(samples, layout, limit, b, host);
    if (host.valid_tokens == 0) continue;
    sum += step.loss_sum(stream, host);
    result.tokens += host.valid_tokens;
  }
  check(result.tokens > 0, "data.validation has no token to evaluate; it needs more than train.sequence ({}) tokens",
        samples.options().sequence);
  result.loss = sum / double(result.tokens);
  const data::TokenSource& source = samples.source();
  result.bits_per_byte = source.text_bytes() > 0
                             ? result.loss / std::numbers::ln2 * double(source.size()) / double(source.text_bytes())
                             : std::numeric_limits<double>::quiet_NaN();
  result.time_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace mylos::train
