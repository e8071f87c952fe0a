// Where the tokens of a run come from: the section [data].
//
//   DataConfig c;  ...bind...                                     // keys train, sources, packing, format, ...
//   for (auto& [name, source] : training_sources(c)) ...          // one, or those of [data.sources.NAME]
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "data/token_format.hpp"

namespace mylos::data {

// How elements of .bin files are stored: as their sidecar says, or as stated here.
enum class StatedDType { sidecar, u16, u32 };
// The container of all files: as recorded with each of them, or the one stated here.
enum class StatedFormat { recorded, raw, npy, llmc, megatron };
// How samples are cut from documents: samples.hpp.
enum class Packing { concat, best_fit };

// One source of a mixture: [data.sources.NAME].
struct SourceConfig {
  std::vector<std::string> files = {};       // and globs, sorted by name
  std::vector<std::string> validation = {};  // the same; empty: not evaluated
  double weight = -1;                        // -1: its number of samples; then for every source
  StatedFormat format = StatedFormat::recorded;
  StatedDType dtype = StatedDType::sidecar;
  std::int64_t document_token = -1;  // -1: as data.document_token
};
void bind(ConfigBinder& keys, SourceConfig& config);

// [[data.phases]]: from a step on, other weights or another learning rate.
struct PhaseConfig {
  std::int64_t start_step = 0;  // at least 1, rising
  std::vector<std::pair<std::string, double>>
      weights;               // empty: as before the first phase; what is not named is not read
  double learning_rate = 1;  // factor on that of the schedule
};
void bind(ConfigBinder& keys, PhaseConfig& config);

struct DataConfig {
  std::vector<std::string> train;                             // files and globs, sorted by name: the only source
  std::vector<std::string> validation;                        // the same; with that of the sources empty: no evaluation
  std::vector<std::pair<std::string, SourceConfig>> sources;  // instead of train
  double temperature = 1;                                     // weights become w^(1 / temperature)
  std::vector<PhaseConfig> phases;
  StatedFormat format = StatedFormat::recorded;
  StatedDType dtype = StatedDType::sidecar;
  std::string tokenizer;  // "byte", a tokenizer.json, or empty: what the sidecar of the first training file names
  Packing packing = Packing::concat;
  bool documents = false;            // attention, positions and loss stop at document boundaries; best_fit implies it
  std::int64_t document_token = -1;  // the token that ends a document; -1: an index, else the sidecar's end_of_text
  bool shuffle = true;
  std::int64_t seed = 1;
  std::int64_t prefetch = 4;        // batches made ahead by the loader's threads; 0: made when asked for
  std::int64_t loader_threads = 1;  // that make batches at the same time; what they make does not depend on it
};

void bind(ConfigBinder& keys, DataConfig& config);

// Nothing of what is left to the files.
TokenFormat declared_format(const DataConfig& config);
TokenFormat declared_format(const SourceConfig& source);

// The sources by name; data.train is one called "train". An Error when there is none, or both forms are given, or a phase does
// not fit.
std::vector<std::pair<std::string, SourceConfig>> training_sources(const DataConfig& config);
// data.validation, called "validation", or that of the sources that have one; empty: no evaluation.
std::vector<std::pair<std::string, SourceConfig>> validation_sources(const DataConfig& config);
bool has_training_data(const DataConfig& config);
// All patterns of files that a run of it reads.
std::vector<std::string> patterns_of(const DataConfig& config);

}  // namespace mylos::data
