// <file>.documents beside a token file: where its end tokens are, so that nobody has to read it whole to know.
//
//   "MYLOSDOC", u32 version 1, u32 bytes a token (2, 4), u64 tokens of the file, u64 bytes of the file, u64 end token,
//   u64 documents N, u64 0, then u64 [N]: the token after each end token, rising. Little-endian, without padding.
//
// What it says is checked against the token file when it is read: sizes, order, and up to 1,024 of its end tokens. A
// violation throws Error naming the index and the remedy; no input crashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_file.hpp"

namespace mylos::data {

struct DocumentIndex {
  std::int64_t width = 2, tokens = 0, bytes = 0;  // of the token file: bytes a token, tokens, its size
  std::int64_t end_token = 0;
  std::vector<std::int64_t> ends;
};

DocumentIndex parse_document_index(std::span<const std::byte> bytes, const std::string& name);
std::string bytes_of(const DocumentIndex& index);

std::string document_index_path(const std::string& token_file);
// None when there is no such file.
std::optional<DocumentIndex> read_document_index(const TokenFile& file);
// By reading the file; threads 0: all cores.
DocumentIndex make_document_index(const TokenFile& file, std::int64_t end_token, int threads = 0);
// The same, written beside the file. Returns the number of documents.
std::int64_t write_document_index(const TokenFile& file, std::int64_t end_token, int threads = 0);

// The token after each `end_token` of a file, in order.
std::vector<std::int64_t> find_ends(const TokenFile& file, std::int64_t end_token, int threads = 0);

}  // namespace mylos::data
