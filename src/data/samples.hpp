// Samples of S + 1 tokens from a source, and the batches a step reads: both are functions of numbers, nothing is
// iterated.
//
// Sample j is tokens j·S .. j·S + S: its first S are the inputs, its last S the labels. The stride is S, so every token
// but the first is predicted exactly once an epoch; the fewer than S tokens left at the end are not used. The training
// order is an endless row of samples; place g of it is sample permutation(seed, g / N)[g mod N] of N. Step s reads
// places s·G .. s·G + G - 1, G the samples of a step over all ranks: resuming needs the step number alone.
#pragma once

#include <cstdint>
#include <vector>

#include "data/config.hpp"
#include "data/token_source.hpp"

namespace mylos::data {

// Micro-batch on the host, [B, S] each. labels: the next token, or -1 where ignored. Without documents, or within the
// first document of a row, document_start is 0 and positions count from 0; both restart after each document token.
struct HostBatch {
  std::int64_t batch = 0, sequence = 0;
  std::vector<std::int32_t> tokens, labels, positions, document_start;
  std::int64_t valid_tokens = 0;  // labels >= 0

  std::int64_t step = 0, micro_batch = 0;  // what it was made for
};

struct SampleOptions {
  std::int64_t sequence = 0;  // S
  bool shuffle = true;
  std::uint64_t seed = 1;
  // >= 0: this token ends a document. The label that would be the first token of the next document is ignored.
  std::int64_t document_token = -1;
};
// Takes the end token from the source where the config leaves it open; an Error when documents are wanted and no one
// says which.
SampleOptions sample_options(const DataConfig& config, const TokenSource& source, std::int64_t sequence, bool shuffle);

class SampleSet {
 public:
  SampleSet(const TokenSource& source, const SampleOptions& options);

  const TokenSource& source() const { return *source_; }
  const SampleOptions& options() const { return options_; }
  std::int64_t count() const { return count_; }  // samples an epoch
  // Which sample stands at place g >= 0 of the endless order.
  std::int64_t sample_at(std::int64_t place) const;
  // Gives batch the shape [rows, S], all labels ignored.
  void prepare(HostBatch& batch, std::int64_t rows) const;
  // Writes sample into a row of a prepared batch.
  void fill(HostBatch& batch, std::int64_t row, std::int64_t sample) const;

 private:
  const TokenSource* source_;
  SampleOptions options_;
  std::int64_t count_;
};

// How a step's samples are dealt: micro-batch m of all ranks together is a run of ranks·batch places, rank after rank.
// So any number of ranks, and any split into micro-batches, sees the same samples in a step.
struct BatchLayout {
  std::int64_t batch = 1;          // B rows of a micro-batch on one rank
  std::int64_t micro_batches = 1;  // of a step
  std::int64_t ranks = 1;          // data-parallel
  std::int64_t rank = 0;

  std::int64_t samples_per_step() const { return batch * micro_batches * ranks; }
};
// Place in the endless order.
std::int64_t place_of(const BatchLayout& layout, std::int64_t step, std::int64_t micro_batch, std::int64_t row);

void make_batch(const SampleSet& samples, const BatchLayout& layout, std::int64_t step, std::int64_t micro_batch,
                HostBatch& out);

// Evaluation reads samples 0 .. limit - 1 (limit 0: all) once, in order: batch b of a rank. Rows past the end have
// every label ignored.
std::int64_t evaluation_batches(const SampleSet& samples, const BatchLayout& layout, std::int64_t limit);
void make_evaluation_batch(const SampleSet& samples, const BatchLayout& layout, std::int64_t limit, std::int64_t b,
                           HostBatch& out);

}  // namespace mylos::data
