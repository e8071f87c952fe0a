// Where the tokens of a run come from: the section [data].
//
//   DataConfig c;  ...bind...                                     // keys train, validation, format, dtype, tokenizer, ...
//   TokenSource train(c.train, declared_format(c), model.vocab);
//   SampleSet samples(train, sample_options(c, train, sequence));  // validation: sample_options(c, v, S, false)
#pragma once

#include <cstdint>
#include <string>
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

struct DataConfig {
  std::vector<std::string> train;       // files and globs, sorted by name
  std::vector<std::string> validation;  // the same; empty: no evaluation
  StatedFormat format = StatedFormat::recorded;
  StatedDType dtype = StatedDType::sidecar;
  std::string tokenizer;  // "byte", a tokenizer.json, or empty: what the sidecar of the first training file names
  Packing packing = Packing::concat;
  bool documents = false;            // attention, positions and loss stop at document boundaries; best_fit implies it
  std::int64_t document_token = -1;  // the token that ends a document; -1: an index, else the sidecar's end_of_text
  bool shuffle = true;
  std::int64_t seed = 1;
  std::int64_t prefetch = 4;  // batches made ahead by the loader's thread; 0: made when asked for
};

void bind(ConfigBinder& keys, DataConfig& config);

// Nothing of what is left to the files.
TokenFormat declared_format(const DataConfig& config);

}  // namespace mylos::data
