// The data of a run: its sources opened, their samples, and the order in which a mixture of them is read.
//
//   TrainingData data(config.data, model.vocab, sequence, layout.samples_per_step());
//   make_batch(data, layout, step, m, batch);       // batch.sources says which source each row is from
//   data.learning_rate_factor(step);
//
// Everything is a function of (configuration, seed, step): the place of a sample in the endless order says its source and its
// number within it (mixture.hpp), that number says epoch and sample (samples.hpp). Each source is shuffled by a seed of its own,
// made from data.seed and its name, so that its order does not depend on the others. Phases begin at steps, so places of
// phases depend on the samples of a step over all ranks, and on nothing else of how a run is laid out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/config.hpp"
#include "data/mixture.hpp"
#include "data/samples.hpp"

namespace mylos::data {

// A source of tokens with its samples.
class NamedSamples {
 public:
  NamedSamples(std::string name, const DataConfig& config, const SourceConfig& source, std::int64_t vocab,
               std::int64_t sequence, bool shuffle);
  const std::string& name() const { return name_; }
  const TokenSource& tokens() const { return *tokens_; }
  const SampleSet& samples() const { return *samples_; }

 private:
  std::string name_;
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<SampleSet> samples_;
};

// Of one source before a step.
struct SourceUse {
  std::int64_t samples = 0;  // that were read, some several times
  double epochs = 0;         // samples / those of an epoch
};

class TrainingData {
 public:
  TrainingData(const DataConfig& config, std::int64_t vocab, std::int64_t sequence, std::int64_t samples_per_step);

  std::size_t size() const { return sources_.size(); }  // sources
  const NamedSamples& operator[](std::size_t i) const { return sources_[i]; }
  std::int64_t sequence() const { return sequence_; }
  DType dtype() const { return dtype_; }  // of batches: u32 when any file is, else u16
  std::int64_t tokens() const;            // of all files
  std::int64_t samples() const;           // of one epoch of every source
  double fill() const;                    // real tokens / all of these samples; 1 without packing
  const std::string& tokenizer() const;   // data.tokenizer, else that of all files (common_tokenizer.hpp)

  std::size_t phases() const { return mixture_.phases(); }
  std::int64_t start_step(std::size_t phase) const { return starts_[phase]; }
  std::size_t phase_at(std::int64_t step) const;
  double weight(std::size_t phase, std::size_t source) const { return mixture_.weight(phase, source); }
  double learning_rate_factor(std::int64_t step) const { return factors_[phase_at(step)]; }

  // What was read before a step, exactly.
  std::vector<SourceUse> use_before(std::int64_t step) const;

  struct Position {
    std::int64_t source, sample;
  };
  Position at(std::int64_t place) const;
  // Of place, place + 1, ... together.
  void at(std::int64_t place, std::span<std::int32_t> sources, std::span<std::int64_t> samples) const;
  std::int64_t samples_per_step() const { return samples_per_step_; }

 private:
  std::vector<NamedSamples> sources_;
  std::int64_t sequence_, samples_per_step_;
  std::vector<std::int64_t> starts_;  // step of each phase
  std::vector<double> factors_;       // of each phase
  Mixture mixture_;
  std::string tokenizer_;
  DType dtype_ = DType::u16;
};

// layout.samples_per_step() must be that of `data`.
void make_batch(const TrainingData& data, const BatchLayout& layout, std::int64_t step, std::int64_t micro_batch,
                HostBatch& out);

// The validation sets of a run, in the order of their files; none: no evaluation.
std::vector<NamedSamples> validation_data(const DataConfig& config, std::int64_t vocab, std::int64_t sequence);

// An Error where validation files are of another tokenizer than training files; unless data.tokenizer is set.
void check_tokenizers(const DataConfig& config, const TrainingData& train, const std::vector<NamedSamples>& validation);

// One line a source, and one a phase; for a run's beginning and `mylos data inspect`. steps > 0: epochs by then, too.
std::string describe(const TrainingData& data, std::int64_t steps);

}  // namespace mylos::data
