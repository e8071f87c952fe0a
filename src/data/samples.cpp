#include "data/samples.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "data/permutation.hpp"

namespace mylos::data {

SampleOptions sample_options(const DataConfig& config, const TokenSource& source, std::int64_t sequence, bool shuffle) {
  SampleOptions options{sequence, shuffle, std::uint64_t(config.seed), {}, config.packing};
  if (config.documents || config.packing == Packing::best_fit)
    options.documents = document_rule(config.document_token, source);
  return options;
}

SampleSet::SampleSet(const TokenSource& source, const SampleOptions& options) : source_(&source), options_(options) {
  check(options.sequence >= 1, "a sequence of {} tokens; it must be at least 1", options.sequence);
  if (options.packing == Packing::best_fit) {
    packed_.emplace(document_ends(source, options.documents), options.sequence);
    count_ = packed_->size();
    check(count_ >= 1, "'{}' and the files after it hold {} documents of one token each, none of which has a label",
          source.files().front().path(), packed_->counts().documents);
    return;
  }
  count_ = (source.size() - 1) / options.sequence;
  check(count_ >= 1, "'{}'{} holds {} tokens, fewer than one sample of {} + 1: use a shorter sequence or more text",
        source.files().front().path(), source.files().size() > 1 ? " and the files after it" : "", source.size(),
        options.sequence);
}

std::int64_t SampleSet::tokens() const { return packed_ ? packed_->counts().tokens : count_ * options_.sequence; }

std::int64_t SampleSet::sample_at(std::int64_t place) const {
  check(place >= 0, "place {} in the order of samples", place);
  const std::int64_t epoch = place / count_, i = place % count_;
  return options_.shuffle ? Permutation(options_.seed, std::uint64_t(epoch), count_)(i) : i;
}

void SampleSet::samples_at(std::int64_t place, std::span<std::int64_t> samples) const {
  check(place >= 0, "place {} in the order of samples", place);
  while (!samples.empty()) {
    const std::int64_t epoch = place / count_, i = place % count_;
    const auto run = samples.first(std::size_t(std::min(std::int64_t(samples.size()), count_ - i)));
    std::iota(run.begin(), run.end(), i);
    if (options_.shuffle) Permutation(options_.seed, std::uint64_t(epoch), count_).apply(run);
    place += std::int64_t(run.size());
    samples = samples.subspan(run.size());
  }
}

void SampleSet::fill(HostBatch& batch, std::int64_t row, std::int64_t sample, TokenReader& reader) const {
  check(sample >= 0 && sample < count_, "sample {} of {}", sample, count_);
  check(row >= 0 && row < batch.batch && batch.sequence == options_.sequence,
        "row {} of a batch of {} x {}, sequence {}", row, batch.batch, batch.sequence, options_.sequence);
  const std::int64_t s = options_.sequence, token_bytes = size_of(batch.dtype);
  std::byte* const tokens = batch.tokens(row);
  if (!packed_) {
    reader.copy(sample * s, s + 1, tokens);
    batch.begin_row(row, s);
    mark_documents(*source_, options_.documents, sample * s, s + 1, batch.dtype, tokens, batch);
    return batch.end_row();
  }
  const PackedRow packed = (*packed_)[sample];
  std::int64_t filled = 0;
  for (const Piece& piece : packed.pieces) filled += piece.length;
  batch.begin_row(row, filled);
  std::int64_t t = 0, written = 0;
  for (const Piece& piece : packed.pieces) {
    // The padding, and the token after a full row, begins a document too, so that no label runs into it.
    reader.copy(packed.base + piece.offset, piece.length + piece.goes_on, tokens + t * token_bytes);
    t += piece.length;
    written = t + piece.goes_on;
    if (!piece.goes_on) batch.begin_document(t);
  }
  std::memset(tokens + written * token_bytes, 0, std::size_t((s + 1 - written) * token_bytes));
  batch.end_row();
}

void SampleSet::prefetch_each(std::int64_t sample, const TokenReader& reader, std::int64_t stride) const {
  if (!packed_) return reader.prefetch(sample * options_.sequence, options_.sequence + 1, stride);
  const PackedRow packed = (*packed_)[sample];
  for (const Piece& piece : packed.pieces) reader.prefetch(packed.base + piece.offset, piece.length, stride);
}

void SampleSet::prefetch_pages(std::int64_t sample, const TokenReader& reader) const {
  if (packed_ || options_.shuffle) prefetch_each(sample, reader, TokenReader::kPage);
}

void SampleSet::prefetch(std::int64_t sample, const TokenReader& reader) const {
  prefetch_each(sample, reader, TokenReader::kLine);
}

void make_batch(const SampleSet& samples, const BatchLayout& layout, std::int64_t step, std::int64_t micro_batch,
                HostBatch& out) {
  check_layout(layout);
  check(step >= 0 && micro_batch >= 0 && micro_batch < layout.micro_batches, "micro-batch {} of {} in step {}",
        micro_batch, layout.micro_batches, step);
  out.prepare_unwritten(layout.batch, samples.options().sequence, samples.source().dtype());
  out.step = step;
  out.micro_batch = micro_batch;
  TokenReader reader(samples.source(), out.dtype);
  for (std::int64_t row = 0; row < layout.batch; ++row) {
    const std::int64_t sample = samples.sample_at(place_of(layout, step, micro_batch, row));
    samples.fill(out, row, sample, reader);
    out.sources[std::size_t(row)] = 0;
    out.samples[std::size_t(row)] = sample;
  }
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
  out.prepare_unwritten(layout.batch, samples.options().sequence, samples.source().dtype());
  out.step = b;
  out.micro_batch = 0;
  const std::int64_t n = evaluated(samples, limit), first = (b * layout.ranks + layout.rank) * layout.batch;
  TokenReader reader(samples.source(), out.dtype);
  for (std::int64_t row = 0; row < layout.batch; ++row) {
    if (first + row >= n) {
      out.write_empty_row(row);
      continue;
    }
    samples.fill(out, row, first + row, reader);
    out.sources[std::size_t(row)] = 0;
    out.samples[std::size_t(row)] = first + row;
  }
}

}  // namespace mylos::data
