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

// All that is read with a token file: itself, its sidecar, its index (ours or Megatron's), the tokenizer that the sidecar names,
// and that one's table; names alone, whether there is such a file or not. No output may have one of them.
std::vector<std::string> files_read_with(const std::string& token_file);

class TokenSource {
 public:
  // vocab: that of the model; a sidecar with a larger one, and any token at or above it, is an Error.
  TokenSource(const std::vector<std::string>& patterns, const TokenFormat& declared, std::int64_t vocab);

  std::int64_t size() const { return begin_.back(); }  // tokens
  std::int64_t vocab() const { return vocab_; }
  const std::vector<TokenFile>& files() const { return files_; }
  std::int64_t begin_of(std::size_t file) const { return begin_[file]; }  // its first token in the sequence
  std::size_t file_of(std::int64_t token) const;
  DType dtype() const { return dtype_; }  // u32 when any file is, else u16

  // Bytes of text behind all tokens; -1 unless every sidecar says. Bits per byte of a mean loss in nats per token:
  // loss / ln 2 · size() / text_bytes() (end tokens are counted as part of the text they end).
  std::int64_t text_bytes() const { return text_bytes_; }
  // The token that ends a document and the tokenizer (a path that can be opened, or "byte"), when all sidecars agree;
  // else -1 and empty.
  std::int64_t end_of_text() const { return end_of_text_; }
  const std::string& tokenizer() const { return tokenizer_; }

  // Tokens first .. first + count - 1; may cross files.
  void read(std::int64_t first, std::int64_t count, std::int32_t* out) const;

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
  friend class TokenReader;
  void check_range(std::int64_t first, std::int64_t count) const;

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> begin_;  // first token of each file, then the total
  std::int64_t vocab_;
  DType dtype_ = DType::u16;
  std::int64_t text_bytes_ = -1;
  std::int64_t end_of_text_ = -1;
  std::string tokenizer_;
};

// Copies runs of tokens as they go into a batch, the one that it is made for: a file must have been whole in the millisecond before the reader comes
// to it, and before every further MiB, so that short rows and documents, and small batches, do not cost a question each.
class TokenReader {
 public:
  // as: no narrower than source.dtype().
  TokenReader(const TokenSource& source, DType as) : source_(&source), as_(as), token_bytes_(size_of(as)) {}
  // Tokens first .. first + count - 1.
  void copy(std::int64_t first, std::int64_t count, std::byte* out);
  // Ask the processor for the memory of these tokens, of at most the first 16 KiB in a file, or for the addresses of its pages alone. Nothing
  // happens where they do not lie in memory.
  void prefetch(std::int64_t first, std::int64_t count, std::int64_t stride = kLine) const;
  static constexpr std::int64_t kLine = 64, kPage = 4096;  // bytes

 private:
  static constexpr std::int64_t kAskAfter = 1 << 20;  // bytes

  const TokenSource* source_;
  DType as_;
  std::int64_t token_bytes_;
  const TokenFile* file_ = nullptr;
  std::int64_t begin_ = 0, end_ = 0;  // tokens of the file in the source
  std::int64_t trusted_ = 0;          // bytes until the file is asked again
};

}  // namespace mylos::data
