// `mylos tokenize`: text or JSONL into token shards with sidecars.
//
// Every input file is a document, but a .jsonl file where every line is one; empty documents are left out. Each
// document is followed by the end token. Document i goes to validation when floor((i + 1)·f + 1/2) > floor(i·f + 1/2),
// f the validation fraction: evenly spread, the same in every run. Shards are written under temporary names and renamed
// when complete.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mylos::data {

struct TokenizeOptions {
  std::vector<std::string> inputs = {};  // files, globs, folders (searched for `extensions`)
  std::vector<std::string> extensions = {".txt", ".md", ".py", ".jsonl"};
  std::string out = {};  // folder, made when missing
  // "byte", the path of a tokenizer.json (copied to out), or "train:V": a byte-level BPE of V tokens trained on the
  // inputs.
  std::string tokenizer = "byte";
  std::string jsonl_field = "text";
  bool skip_invalid = false;          // leave out files that are not UTF-8, which BPE otherwise refuses
  double validation_fraction = 0.01;  // [0, 0.5]
  std::int64_t shard_tokens = std::int64_t(1) << 28;
};

struct TokenizeSplit {
  std::vector<std::string> shards;
  std::int64_t documents = 0, tokens = 0, text_bytes = 0;
};
struct TokenizeResult {
  std::string tokenizer;  // "byte" or out/tokenizer.json
  std::int64_t vocab = 0;
  std::vector<std::string> skipped;  // files left out by skip_invalid
  TokenizeSplit train, validation;   // shards out/train-00000.bin, out/validation-00000.bin, ...
};

// An Error (and no shard of this run left behind) when an input cannot be read, out already holds shards, or the split
// leaves a side empty that should not be.
TokenizeResult tokenize(const TokenizeOptions& options);

}  // namespace mylos::data
