// Several token files read as one long sequence of tokens, in the order of their names.
//
// A source must outlive the sample sets made from it. Reading is const and safe from several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/token_file.hpp"

namespace mylos::data {

// Globs (*, ?, [...]) replaced by what they match, all sorted by name, each file once. A pattern without a match is an
// Error. Sidecars and indices are not token files: names ending in .json, .idx or .documents are left out of what a glob
// matches.
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
  std::int64_t begin_of(std::size_t file) const { return begin_[file]; }  // its first token in the sequence
  std::size_t file_of(std::int64_t token) const;
  DType dtype() const;  // u32 when any file is, else u16

  // Bytes of text behind all tokens; -1 unless every sidecar says. Bits per byte of a mean loss in nats per token:
  // loss / ln 2 · size() / text_bytes() (end tokens are counted as part of the text they end).
  std::int64_t text_bytes() const { return text_bytes_; }
  // The token that ends a document and the tokenizer (a path that can be opened, or "byte"), when all sidecars agree;
  // else -1 and empty.
  std::int64_t end_of_text() const { return end_of_text_; }
  const std::string& tokenizer() const { return tokenizer_; }

  // Tokens first .. first + count - 1; may cross files.
  void read(std::int64_t first, std::int64_t count, std::int32_t* out) const;

  // Asks the processor for the memory of the first of `count` tokens; nothing happens where they do not lie in memory.
  void prefetch(std::int64_t first, std::int64_t count) const;

  // Calls part(file, first token within it, count) for each file that tokens first .. first + count - 1 lie in.
  template <class F>
  void for_each_part(std::int64_t first, std::int64_t count, F&& part) const {
    check_range(first, count);
    for (std::size_t file = count > 0 ? file_of(first) : 0; count > 0; ++file) {
      const std::int64_t here = std::min(count, begin_[file + 1] - first);
      part(file, first - begin_[file], here);
      first += here;
      count -= here;
    }
  }

 private:
  void check_range(std::int64_t first, std::int64_t count) const;

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> begin_;  // first token of each file, then the total
  std::int64_t vocab_;
  std::int64_t text_bytes_ = -1;
  std::int64_t end_of_text_ = -1;
  std::string tokenizer_;
};

// Copies runs of tokens as they go into a batch: for each file it comes to it asks once whether the file is whole, so
// that the short documents of a row cost one question and not many. For one row; make another for the next.
class TokenReader {
 public:
  explicit TokenReader(const TokenSource& source) : source_(&source) {}
  // Tokens first .. first + count - 1 as elements of dtype `as`, no narrower than source.dtype().
  void copy(std::int64_t first, std::int64_t count, DType as, std::byte* out);

 private:
  const TokenSource* source_;
  std::size_t checked_ = std::size_t(-1);
};

}  // namespace mylos::data
