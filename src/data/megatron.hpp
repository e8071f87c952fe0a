// The index <stem>.idx of a Megatron data set, whose tokens are <stem>.bin (github.com/NVIDIA/Megatron-LM,
// megatron/core/datasets/indexed_dataset.py). Little-endian, without padding:
//
//   "MMIDIDX\0\0", u64 version 1, u8 dtype code, u64 sequences N, u64 entries D of the document index,
//   i32 tokens of each sequence [N], i64 byte in the .bin where it begins [N], i64 first sequence of each document [D]
//
// The last entry of the document index is N: D - 1 documents. dtype codes read: 8 = u16, 4 = i32, taken for u32, so that
// a negative token is one outside every vocabulary. Every array is checked against the others and against the .bin's
// size, O(index); a violation throws Error naming `name`. Sequences must lie in the .bin in order without gaps, as
// Megatron writes them. Memory is that of the caller: nothing is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/token_format.hpp"

namespace mylos::data {

// The first token of each document, in order, and after the last document the number of tokens. A view of the index's
// bytes.
class DocumentStarts {
 public:
  DocumentStarts() = default;  // a file that does not say where its documents begin
  DocumentStarts(const std::byte* pointers, const std::byte* documents, std::int64_t count, std::int64_t sequences,
                 const TokenLayout& layout)
      : pointers_(pointers), documents_(documents), count_(count), sequences_(sequences), layout_(layout) {}

  bool stated() const { return documents_ != nullptr; }
  std::int64_t size() const { return count_; }           // documents; some may be empty
  std::int64_t operator[](std::int64_t document) const;  // 0 to size(), both included
  // The last document that begins at or before a token.
  std::int64_t document_of(std::int64_t token) const;

 private:
  const std::byte* pointers_ = nullptr;   // i64 [sequences]
  const std::byte* documents_ = nullptr;  // i64 [count + 1]
  std::int64_t count_ = 0, sequences_ = 0;
  TokenLayout layout_;
};

struct MegatronIndex {
  TokenLayout layout;  // of the .bin
  DocumentStarts documents;
};

// `index` is the whole .idx; data_bytes the size of the .bin.
MegatronIndex parse_megatron_index(std::span<const std::byte> index, std::int64_t data_bytes, const std::string& name);

// <stem>.idx of <stem>.bin; an Error for other names.
std::string megatron_index_path(const std::string& token_file);

}  // namespace mylos::data
