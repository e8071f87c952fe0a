// Several token files read as one long sequence of tokens, in the order of their names.
//
// A source must outlive the sample sets made from it. Reading is const and safe from several threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/token_file.hpp"

namespace mylos::data {

// Globs (*, ?, [...]) replaced by what they match, all sorted by name, each file once. A pattern without a match is an
// Error. Sidecars and Megatron indices are not token files: names ending in .json or .idx are left out of what a glob matches.
std::vector<std::string> expand_files(const std::vector<std::string>& patterns);

// The tokenizer that a file's sidecar names: "byte", a path that can be opened, or empty.
std::string tokenizer_of(const TokenFile& file);

class TokenSource {
 public:
  // vocab: that of the model; a sidecar with a larger one, and any token at or above it, is an Error.
  TokenSource(const std::vector<std::string>& patterns, const TokenFormat& declared, std::int64_t vocab);

  std::int64_t size() const { return begin_.back(); }  // tokens
  std::int64_t vocab() const { return vocab_; }
  const std::vector<TokenFile>& files() const { return files_; }

  // Bytes of text behind all tokens; -1 unless every sidecar says. Bits per byte of a mean loss in nats per token:
  // loss / ln 2 · size() / text_bytes() (end tokens are counted as part of the text they end).
  std::int64_t text_bytes() const { return text_bytes_; }
  // The token that ends a document and the tokenizer (a path that can be opened, or "byte"), when all sidecars agree;
  // else -1 and empty.
  std::int64_t end_of_text() const { return end_of_text_; }
  const std::string& tokenizer() const { return tokenizer_; }

  // Tokens first .. first + count - 1; may cross files.
  void read(std::int64_t first, std::int64_t count, std::int32_t* out) const;

 private:
  std::vector<TokenFile> files_;
  std::vector<std::int64_t> begin_;  // first token of each file, then the total
  std::int64_t vocab_;
  std::int64_t text_bytes_ = -1;
  std::int64_t end_of_text_ = -1;
  std::string tokenizer_;
};

}  // namespace mylos::data
