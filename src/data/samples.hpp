// Samples of S tokens and their labels from a source: each is a function of its number, nothing is iterated.
//
// concat: sample j is tokens j·S .. j·S + S: its first S are the inputs, its last S the labels. The stride is S, so every
// token but the first is predicted exactly once an epoch; the fewer than S tokens left at the end are not used.
// best_fit: sample j is row j of the packing (packing.hpp): whole documents, then padding, which has no labels.
// The training order is an endless row of samples; place g of it is sample permutation(seed, g / N)[g mod N] of N.
#pragma once

#include <cstdint>
#include <optional>

#include "data/batch_layout.hpp"
#include "data/boundaries.hpp"
#include "data/config.hpp"
#include "data/host_batch.hpp"
#include "data/packing.hpp"
#include "data/token_source.hpp"

namespace mylos::data {

struct SampleOptions {
  std::int64_t sequence = 0;  // S
  bool shuffle = true;
  std::uint64_t seed = 1;
  // Where documents end, if that is to be seen: the label that would be the first token of the next one is ignored.
  DocumentRule documents = {};
  Packing packing = Packing::concat;  // best_fit needs documents
};
// Takes where documents end from the source where the config leaves it open; an Error when documents are wanted and no one
// says.
SampleOptions sample_options(const DataConfig& config, const TokenSource& source, std::int64_t sequence, bool shuffle);

class SampleSet {
 public:
  SampleSet(const TokenSource& source, const SampleOptions& options);

  const TokenSource& source() const { return *source_; }
  const SampleOptions& options() const { return options_; }
  std::int64_t count() const { return count_; }  // samples an epoch
  std::int64_t tokens() const;                   // real ones of an epoch; the rest of count() · S is padding
  double fill() const { return double(tokens()) / (double(count_) * double(options_.sequence)); }
  const PackedRows* packed() const { return packed_ ? &*packed_ : nullptr; }  // none: concat

  // Which sample stands at place g >= 0 of the endless order; those at g, g + 1, ... together take a fraction of the time.
  std::int64_t sample_at(std::int64_t place) const;
  void samples_at(std::int64_t place, std::span<std::int64_t> samples) const;
  // Writes sample into a row of a prepared batch, all S + 1 tokens of it; the reader is of source() and the batch's dtype.
  void fill(HostBatch& batch, std::int64_t row, std::int64_t sample, TokenReader& reader) const;
  // Before fill(), with other work between the two: the tokens of a random sample are far from the processor. First where they are, for as many
  // samples as are known: looking up a page takes as long as reading a row, and several are looked up at a time.
  void prefetch_pages(std::int64_t sample, const TokenReader& reader) const;
  void prefetch(std::int64_t sample, const TokenReader& reader) const;

 private:
  void prefetch_each(std::int64_t sample, const TokenReader& reader, std::int64_t stride) const;

  const TokenSource* source_;
  SampleOptions options_;
  std::int64_t count_;
  std::optional<PackedRows> packed_;
};

// Rows of a step's micro-batch; the source of each is 0.
void make_batch(const SampleSet& samples, const BatchLayout& layout, std::int64_t step, std::int64_t micro_batch,
                HostBatch& out);

// Evaluation reads samples 0 .. limit - 1 (limit 0: all) once, in order: batch b of a rank. Rows past the end are empty.
std::int64_t evaluation_batches(const SampleSet& samples, const BatchLayout& layout, std::int64_t limit);
void make_evaluation_batch(const SampleSet& samples, const BatchLayout& layout, std::int64_t limit, std::int64_t b,
                           HostBatch& out);

}  // namespace mylos::data
