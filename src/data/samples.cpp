#include "data/samples.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "data/permutation.hpp"

namespace mylos::data {

SampleOptions sample_options(const DataConfig& config, const TokenSource& source, std::int64_t sequence, bool shuffle) {
  SampleOptions options{sequence, shuffle, std::uint64_t(config.seed), -1};
  if (config.documents) {
    const std::int64_t token = config.document_token >= 0 ? config.document_token : source.end_of_text();
    check(token >= 0, "data.documents is on, but no sidecar of '{}' names one end_of_text: set data.document_token",
          source.files().front().path());
    check(token < source.vocab(), "data.document_token {} is not below the vocabulary of {}", token, source.vocab());
    options.document_token = std::int32_t(token);
  }
  return options;
}

SampleSet::SampleSet(const TokenSource& source, const SampleOptions& options) : source_(&source), options_(options) {
  check(options.sequence >= 1, "a sequence of {} tokens; it must be at least 1", options.sequence);
  count_ = (source.size() - 1) / options.sequence;
  check(count_ >= 1, "'{}'{} holds {} tokens, fewer than one sample of {} + 1: use a shorter sequence or more text",
        source.files().front().path(), source.files().size() > 1 ? " and the files after it" : "", source.size(),
        options.sequence);
}

std::int64_t SampleSet::sample_at(std::int64_t place) const {
  check(place >= 0, "place {} in the order of samples", place);
  const std::int64_t epoch = place / count_, i = place % count_;
  return options_.shuffle ? Permutation(options_.seed, std::uint64_t(epoch), count_)(i) : i;
}

void SampleSet::prepare(HostBatch& batch, std::int64_t rows) const {
  const std::size_t n = std::size_t(rows * options_.sequence);
  batch.batch = rows;
  batch.sequence = options_.sequence;
  batch.tokens.assign(n, 0);
  batch.labels.assign(n, -1);
  batch.document_start.assign(n, 0);
  batch.positions.resize(n);
  for (std::size_t i = 0; i < n; ++i) batch.positions[i] = std::int32_t(i % std::size_t(options_.sequence));
  batch.valid_tokens = 0;
}

void SampleSet::fill(HostBatch& batch, std::int64_t row, std::int64_t sample) const {
  check(sample >= 0 && sample < count_, "sample {} of {}", sample, count_);
  check(row >= 0 && row < batch.batch && batch.sequence == options_.sequence,
        "row {} of a batch of {} x {}, sequence {}", row, batch.batch, batch.sequence, options_.sequence);
  const std::int64_t s = options_.sequence;
  std::int32_t* tokens = batch.tokens.data() + row * s;
  std::int32_t* labels = batch.labels.data() + row * s;
  source_->read(sample * s, s, tokens);
  source_->read(sample * s + s, 1, labels + s - 1);
  std::copy(tokens + 1, tokens + s, labels);
  batch.valid_tokens += s;
  if (options_.document_token < 0) return;

  std::int32_t* positions = batch.positions.data() + row * s;
  std::int32_t* starts = batch.document_start.data() + row * s;
  std::int32_t start = 0;
  for (std::int32_t t = 0; t < std::int32_t(s); ++t) {
    starts[t] = start;
    positions[t] = t - start;
    if (tokens[t] != options_.document_token) continue;
    labels[t] = -1;
    --batch.valid_tokens;
    start = t + 1;
  }
}

namespace {

void check_layout(const BatchLayout& l) {
  check(l.batch >= 1 && l.micro_batches >= 1 && l.ranks >= 1 && l.rank >= 0 && l.rank < l.ranks,
        "a batch layout of {} rows, {} micro-batches, rank {} of {}: each count must be at least 1", l.batch,
        l.micro_batches, l.rank, l.ranks);
}

}  // namespace

std::int64_t place_of(const BatchLayout& l, std::int64_t step, std::int64_t micro_batch, std::int64_t row) {
  return step * l.samples_per_step() + (micro_batch * l.ranks + l.rank) * l.batch + row;
}

void make_batch(const SampleSet& samples, const BatchLayout& layout, std::int64_t step, std::int64_t micro_batch,
                HostBatch& out) {
  check_layout(layout);
  check(step >= 0 && micro_batch >= 0 && micro_batch < layout.micro_batches, "micro-batch {} of {} in step {}",
        micro_batch, layout.micro_batches, step);
  samples.prepare(out, layout.batch);
  out.step = step;
  out.micro_batch = micro_batch;
  for (std::int64_t row = 0; row < layout.batch; ++row)
    samples.fill(out, row, samples.sample_at(place_of(layout, step, micro_batch, row)));
}

namespace {

std::int64_t evaluated(const SampleSet& samples, std::int64_t limit) {
  check(limit >= 0, "an evaluation of {} samples; use 0 for all", limit);
  return limit == 0 ? samples.count() : std::min(limit, samples.count());
}

}  // namespace

std::int64_t evaluation_batches(const SampleSet& samples, const BatchLayout& layout, std::int64_t limit) {
  check_layout(layout);
  const std::int64_t together = layout.batch * layout.ranks;
  return (evaluated(samples, limit) + together - 1) / together;
}

void make_evaluation_batch(const SampleSet& samples, const BatchLayout& layout, std::int64_t limit, std::int64_t b,
                           HostBatch& out) {
  check(b >= 0 && b < evaluation_batches(samples, layout, limit), "evaluation batch {} of {}", b,
        evaluation_batches(samples, layout, limit));
  samples.prepare(out, layout.batch);
  out.step = b;
  out.micro_batch = 0;
  const std::int64_t n = evaluated(samples, limit), first = (b * layout.ranks + layout.rank) * layout.batch;
  for (std::int64_t row = 0; row < layout.batch && first + row < n; ++row) samples.fill(out, row, first + row);
}

}  // namespace mylos::data
