// Writes documents as token shards `<folder>/<stem>-00000.bin` with their sidecars.
//
// A shard ends with the document that takes it to shard_tokens. Files carry ".partial" in their names until finish()
// renames them all; a writer that is not finished removes what it wrote.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/file.hpp"
#include "data/sidecar.hpp"

namespace mylos::data {

class ShardWriter {
 public:
  // about: vocab, tokenizer and end_of_text of every sidecar.
  ShardWriter(std::string folder, std::string stem, const Sidecar& about, std::int64_t shard_tokens);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // One document with its end token.
  void add(std::span<const std::uint16_t> tokens, std::int64_t text_bytes);
  std::vector<std::string> finish();  // the shards' paths

  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t text_bytes() const { return text_bytes_; }

 private:
  void open_shard();
  void close_shard();

  std::string folder_, stem_;
  Sidecar about_;
  std::int64_t shard_tokens_;
  std::int64_t documents_ = 0, tokens_ = 0, text_bytes_ = 0;

  std::FILE* file_ = nullptr;
  std::optional<Sha256> sum_;
  Sidecar shard_;                   // of the open shard
  std::vector<std::string> paths_;  // final names
  std::vector<Sidecar> sidecars_;   // of closed shards
};

}  // namespace mylos::data
