// Writes documents as token shards `<folder>/<stem>-00000.bin` with their sidecars and indices of documents.
//
// A shard ends with the document that takes it to shard_tokens. Files carry ".partial" in their names until finish()
// renames them all; a writer that is neither finished nor told to keep() removes what it wrote. A writer goes on where
// another stood when it was given that one's ShardState.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.hpp"
#include "data/sidecar.hpp"

namespace mylos::data {

std::string shard_name(std::string_view stem, std::size_t shard);  // "train-00000.bin"

struct ShardState {
  std::vector<Sidecar> closed;
  std::optional<Sidecar> open;  // its counts
};

class ShardWriter {
 public:
  // about: dtype, vocab, tokenizer and end_of_text of every sidecar.
  ShardWriter(std::string folder, std::string stem, const Sidecar& about, std::int64_t shard_tokens,
              const ShardState& from = {});
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Tokens of a document, a part or all of it; the end token is added here.
  void add(std::span<const std::uint32_t> tokens, std::int64_t text_bytes, bool ends);
  ShardState sync();                  // puts everything on the disk and says where it stands
  ShardState close();                 // the last shard too: nothing is added after it
  std::vector<std::string> finish();  // gives the shards their names, which it returns
  void keep() { keep_ = true; }

  const std::vector<Sidecar>& closed() const { return closed_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t text_bytes() const { return text_bytes_; }

 private:
  std::string path_of(std::size_t shard) const;
  void open_shard(const Sidecar& from);
  void close_shard();
  template <class T>
  void write(std::span<const std::uint32_t> tokens);

  std::string folder_, stem_;
  Sidecar about_;
  std::int64_t shard_tokens_;
  std::int64_t documents_ = 0, tokens_ = 0, text_bytes_ = 0;
  bool keep_ = false;

  std::FILE* file_ = nullptr;
  std::optional<Sha256> sum_;
  Sidecar shard_;  // of the open shard
  std::vector<Sidecar> closed_;
};

}  // namespace mylos::data
