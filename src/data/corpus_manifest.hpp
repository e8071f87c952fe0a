// manifest.json of a folder made by `mylos tokenize`: what went in, with which options, and what came out (docs/data.md).
//
// While the run lasts it says "complete": false and where to read on, so that a run that was killed goes on from there;
// a run with other arguments is refused. Reading throws Error naming the file for whatever is not such a manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus_inputs.hpp"
#include "data/documents.hpp"
#include "data/shard_writer.hpp"

namespace mylos::data {

struct CorpusOptions {
  std::string tokenizer, jsonl_field;  // as given
  double validation_fraction = 0;
  std::int64_t shard_tokens = 0;
  bool skip_invalid = false;
  bool allow_lossy = false;
};

struct CorpusManifest {
  bool complete = false;
  CorpusOptions options;
  std::vector<InputFile> inputs;
  std::vector<std::string> left_out;
  std::string tokenizer;         // "byte", or tokenizer.json or tokenizer.model in the same folder
  std::string tokenizer_sha256;  // of that file; empty for "byte"
  std::string lossy;             // why its texts do not all come back; empty: they do
  std::int64_t vocab = 0, end_of_text = 0;
  CorpusPosition position;  // while it is not complete
  ShardState train, validation;
};

std::string manifest_path(const std::string& folder);
std::optional<CorpusManifest> read_manifest(const std::string& folder);  // none: there is no such file
void write_manifest(const std::string& folder, const CorpusManifest& manifest);

// An Error that says which argument or input is not what the unfinished run in `folder` was started with.
void check_same_run(const std::string& folder, const CorpusManifest& before, const CorpusManifest& now);

}  // namespace mylos::data
