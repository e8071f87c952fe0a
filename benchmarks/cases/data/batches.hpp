// Batches of rows from the corpus, as a run's loader makes them, and how the cases of data count: bytes are those of the tokens, once.
#pragma once

#include <memory>
#include <string>

#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/corpus.hpp"
#include "data/training_data.hpp"

namespace mylos::bench {

constexpr std::int64_t kRows = 16;  // of a batch

enum class Cut { concat, documents, best_fit, mixture };
constexpr const char* kCutNames[] = {"concat", "documents", "best_fit", "mixture"};

std::int64_t corpus_tokens(const Place& place);

// The corpus opened, with batches of rows of S tokens of one thread, in a random order or as they lie.
class Batches {
 public:
  Batches(const Place& place, Cut cut, std::int64_t sequence, bool shuffle);
  void make(std::int64_t step, data::HostBatch& out) const;
  const data::TrainingData& data() const { return *data_; }
  const Corpus& corpus() const { return *corpus_; }

 private:
  std::shared_ptr<const Corpus> corpus_;
  std::unique_ptr<data::TrainingData> data_;
};

// A case of the host whose call takes `steps` batches.
Case host_case(const std::string& name, std::int64_t tokens, int threads, const char* source);

}  // namespace mylos::bench
