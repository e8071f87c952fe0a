#include "benchmarks/cases/network.hpp"

#include <cstring>

#include "benchmarks/cases/words.hpp"

namespace mylos::bench {
namespace {

constexpr double kLearningRate = 1e-5;

// Every label counts; words as often as in a text.
data::HostBatch random_batch(const train::Config& c) {
  data::HostBatch b;
  b.prepare(c.train.batch, c.train.sequence, DType::u16);
  const std::vector<std::int32_t> drawn = draw(c.train.batch * (c.train.sequence + 1), c.model.vocab, Words::zipf);
  const std::vector<std::uint16_t> tokens(drawn.begin(), drawn.end());
  for (std::int64_t row = 0; row < b.batch; ++row) {
    const std::int64_t n = b.sequence + 1;
    std::memcpy(b.tokens(row), tokens.data() + row * n, std::size_t(n) * sizeof(std::uint16_t));
    data::set_bits(b.ignored(row), 0, b.sequence, false);
    b.sources[std::size_t(row)] = 0;
  }
  b.count();
  return b;
}

std::int64_t plan(const train::Config& config) {
  const std::int64_t bytes = train::plan_run(config).total_bytes;
  need_memory(bytes, "the model with its optimizer");
  return bytes;
}

}  // namespace

std::string network_name(const Place& place) { return place.gpu ? "125m" : "debug"; }

train::Config network(const Place& place, optimizer::Rule rule, DType storage) {
  train::Config c;
  c.model = place.gpu ? model::ModelConfig{.dim = 768, .layers = 12, .heads = 12, .vocab = 32000, .max_seq_len = 512}
                      : model::ModelConfig{.dim = 256, .layers = 4, .heads = 4, .vocab = 32000, .max_seq_len = 512};
  c.train.batch = place.gpu ? 4 : 2;
  c.train.sequence = place.gpu ? 512 : 64;
  c.train.storage = c.train.gradients = storage;
  c.optimizer.name = rule;
  c.data.train = {"random tokens"};
  return train::resolve(c);
}

Training::Training(const train::Config& config, Pool& pool)
    : stream_(pool.stream()), arena_(plan(config), "training"), step_(config, arena_) {
  step_.initialize(stream_);
  for (int i = 0; i < 2; ++i) batches_.push_back(random_batch(config));
  pool.elsewhere(bytes());
}

void Training::queue() {
  if (step_.queued() == train::TrainStep::kMostQueued) finish();
  step_.queue(stream_, next_, kLearningRate, {&batches_[std::size_t(next_ % 2)], 1});
  ++next_;
}

double Training::finish() {
  const train::StepResult r = step_.finish();
  check(r.finite, "loss {} and gradient norm {} are not both finite", r.loss, r.grad_norm);
  return r.loss;
}

}  // namespace mylos::bench
