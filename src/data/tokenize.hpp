// `mylos tokenize`: text or JSONL into token shards with sidecars.
//
// Every input file is a document, but a .jsonl file where every line is one; empty documents are left out. Each
// document is followed by the end token. Document i goes to validation when floor((i + 1)·f + 1/2) > floor(i·f + 1/2),
// f the validation fraction: evenly spread, the same in every run, whatever the number of processes. Inputs may be .gz or
// .zst. Shards are written under temporary names and renamed when all are complete. out/manifest.json says how far a run
// has come: after a kill, the same call goes on from there and ends with the same files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mylos::data {

struct TokenizeProgress {
  const char* phase;                                   // "training", "encoding"
  std::int64_t bytes_done, bytes_before, bytes_total;  // of the input files; before: by runs that were killed
  std::int64_t documents, tokens;
};

struct TokenizeOptions {
  std::vector<std::string> inputs = {};  // files, globs, folders (searched for `extensions`)
  std::vector<std::string> extensions = {".txt", ".md", ".py", ".jsonl"};
  std::string out = {};  // folder, made when missing
  // "byte", the path of a tokenizer.json or of a SentencePiece .model (copied to out), or "train:V": a byte-level BPE of V
  // tokens trained on the inputs.
  std::string tokenizer = "byte";
  std::string jsonl_field = "text";
  bool skip_invalid = false;          // leave out files that are not UTF-8, which all but "byte" otherwise refuse
  bool allow_lossy = false;           // take a tokenizer that does not give back every text, and record that
  double validation_fraction = 0.01;  // [0, 0.5]
  std::int64_t shard_tokens = std::int64_t(1) << 28;
  int jobs = 0;                    // processes that encode, all but "byte"; 0: one a core
  double checkpoint_seconds = 10;  // between two records of how far it is; one more after every shard
  std::function<void(const TokenizeProgress&)> progress = {};  // called every few megabytes
};

struct TokenizeSplit {
  std::vector<std::string> shards;
  std::int64_t documents = 0, tokens = 0, text_bytes = 0;
};
struct TokenizeResult {
  std::string tokenizer;  // "byte", out/tokenizer.json or out/tokenizer.model
  std::string lossy;      // why its texts do not all come back; empty: they do
  std::int64_t vocab = 0;
  std::vector<std::string> skipped;  // files left out by skip_invalid
  std::int64_t resumed_at = 0;       // documents that a run that was killed had done
  TokenizeSplit train, validation;   // shards out/train-00000.bin, out/validation-00000.bin, ...
};

// An Error when an input cannot be read, out already holds shards or an unfinished run with other options, or the split
// leaves a side empty that should not be. It leaves nothing of the run behind but complete shards to go on from.
TokenizeResult tokenize(const TokenizeOptions& options);

}  // namespace mylos::data
