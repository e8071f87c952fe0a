// `mylos data inspect FOLDER`: what a folder made by `mylos tokenize` holds, by its manifest, held against its files.
//
// Shards must be there, as long as stated and with sidecars that agree; the tokenizer must be the one of the manifest.
// Shards that a glob would find and the manifest does not know, and a run that has not ended, are problems. The tokens
// themselves are read only for their SHA-256, where that is wanted. A folder without a manifest is an Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus_manifest.hpp"

namespace mylos::data {

struct CorpusShard {
  std::string file;    // without its folder; ends in .partial while the run lasts
  Sidecar stated;      // by the manifest
  std::int64_t bytes;  // on the disk; -1: it is not there
};

struct CorpusReport {
  std::string folder;
  CorpusManifest manifest;
  std::vector<CorpusShard> train, validation;
  std::vector<std::string> problems;  // empty: sound
};

CorpusReport inspect_corpus(const std::string& folder, bool sha256 = false);
// For people, several lines; and as JSON.
std::string describe(const CorpusReport& report);
std::string to_json(const CorpusReport& report);

}  // namespace mylos::data
