#include "train/profile.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "data/training_data.hpp"
#include "optimizer/schedule.hpp"
#include "tensor/philox.hpp"
#include "train/ledger.hpp"
#include "train/step.hpp"

namespace mylos::train {
namespace {

using StepBatches = std::vector<data::HostBatch>;

data::HostBatch random_batch(const Config& c, std::int64_t step, std::int64_t micro_batch) {
  data::HostBatch b;
  b.prepare(c.train.batch, c.train.sequence, DType::u32);
  b.step = step;
  b.micro_batch = micro_batch;
  std::int64_t i = 0;
  for (std::int64_t row = 0; row < b.batch; ++row) {
    data::set_bits(b.ignored(row), 0, b.sequence, false);
    for (std::int64_t t = 0; t <= b.sequence; ++t, ++i) {
      const PhiloxBlock words =
          philox(std::uint64_t(c.data.seed), Purpose::sampling,
                 std::uint32_t(step * c.train.accumulation + micro_batch), std::uint64_t(i / 4 * 4));
      const auto token = std::uint32_t((std::uint64_t(words.v[i % 4]) * std::uint64_t(c.model.vocab)) >> 32);
      std::memcpy(b.tokens(row) + t * size_of(b.dtype), &token, sizeof token);
    }
    b.sources[std::size_t(row)] = 0;
  }
  b.count();
  return b;
}

// Micro-batches of the first `count` steps.
std::vector<StepBatches> make_batches(const Config& c, std::int64_t count) {
  std::vector<StepBatches> steps(static_cast<std::size_t>(count));
  for (StepBatches& s : steps) s.resize(std::size_t(c.train.accumulation));
  if (!data::has_training_data(c.data)) {
    for (std::int64_t s = 0; s < count; ++s)
      for (std::int64_t m = 0; m < c.train.accumulation; ++m)
        steps[std::size_t(s)][std::size_t(m)] = random_batch(c, s, m);
    return steps;
  }
  const data::TrainingData data(c.data, c.model.vocab, c.train.sequence, c.train.batch * c.train.accumulation);
  const data::BatchLayout layout{.batch = c.train.batch, .micro_batches = c.train.accumulation};
  for (std::int64_t s = 0; s < count; ++s)
    for (std::int64_t m = 0; m < layout.micro_batches; ++m)
      data::make_batch(data, layout, s, m, steps[std::size_t(s)][std::size_t(m)]);
  return steps;
}

// Runs steps one after another, as far ahead of the device as a training run.
class Runner {
 public:
  Runner(const Config& c, TrainStep& step, const Stream& stream, std::vector<StepBatches> batches)
      : schedule_(c.schedule, c.train.steps), step_(step), stream_(stream), batches_(std::move(batches)) {}

  // ends[i] is recorded after step i of them.
  void run(std::int64_t count, std::vector<Event>& ends) {
    for (std::int64_t i = 0; i < count; ++i, ++next_) {
      if (step_.queued() == TrainStep::kMostQueued) finish();
      step_.queue(stream_, next_, schedule_.learning_rate(next_), batches_[std::size_t(next_) % batches_.size()]);
      ends[std::size_t(i)].record(stream_);
    }
    while (step_.queued() > 0) finish();
    stream_.fence();
  }

 private:
  void finish() {
    const StepResult r = step_.finish();
    check(r.finite, "loss {} and gradient norm {} are not both finite; lower schedule.learning_rate", r.loss,
          r.grad_norm);
  }

  optimizer::Schedule schedule_;
  TrainStep& step_;
  const Stream& stream_;
  std::vector<StepBatches> batches_;
  std::int64_t next_ = 0;
};

}  // namespace

StepProfile profile(const Config& config, const ProfileOptions& options) {
  check(options.steps >= 1 && options.warmup >= 1,
        "{} steps after {} of warm-up; at least one of each is needed, as the first one loads libraries", options.steps,
        options.warmup);
  const DeviceInfo device = device_info();
  StepProfile p;
  p.config = with_swiglu(with_recompute(config, memory_for_run()));
  p.random_tokens = !data::has_training_data(config.data);
  p.plan = plan_run(p.config);
  plan::check_fits(p.plan, device.memory_bytes);
  std::vector<StepBatches> batches =
      make_batches(p.config, std::min(StepProfile::kMostBatches, options.steps + options.warmup));

  const Stream stream;
  Arena arena(p.plan.total_bytes, "profile");
  TrainStep step(p.config, arena);
  step.use_graphs(false);
  step.initialize(stream);
  Runner runner(p.config, step, stream, std::move(batches));
  measure::OpClock clock;
  clock.listen();
  std::vector<Event> ends(std::size_t(std::max(options.steps, options.warmup)));
  runner.run(options.warmup, ends);
  const std::int64_t regions = clock.recorded() / options.warmup;
  clock.clear();
  clock.reserve(regions * options.steps);

  Event begin;
  begin.record(stream);
  runner.run(options.steps, ends);
  clock.collect();
  for (std::size_t i = 0; i < std::size_t(options.steps); ++i)
    p.step_s.push_back(ends[i].seconds_since(i == 0 ? begin : ends[i - 1]));
  const double mean_s = std::accumulate(p.step_s.begin(), p.step_s.end(), 0.0) / double(options.steps);
  p.table =
      measure::op_table(clock.times(), options.steps, mean_s, step_ledger(p.config), measure::device_peak(device.name));
  return p;
}

}  // namespace mylos::train
