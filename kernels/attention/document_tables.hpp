// How the tables of documents lie in memory: for each class with room, lengths and, for each width of a row of operands,
// offsets. A document's place among its class is its place in the batch, so tables have the same bits in every run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention.hpp"

namespace mylos::kernels::attention {

// Elements a token of: lse; a fused projection q|k|v; q|k; q and what looks like it; k and v.
inline constexpr int kRowWidths = 5;

struct DocumentClass {
  std::int64_t longest = 0, room = 0;
  std::int64_t lengths = 0, offsets = 0;  // bytes into the tables: [room] i32, [kRowWidths, room + 1] i64
};

struct DocumentTables {
  std::array<std::int64_t, kRowWidths> widths{};
  std::array<DocumentClass, kLengthClasses> classes{};  // of which the first `count`, by length
  int count = 0;
  std::int64_t bytes = 0;
};
DocumentTables tables_of(const AttentionShape& shape, const AttentionBucket& bucket);
// Calls that each take `doublings` classes of length, from the longest down; kLengthClasses: one call.
AttentionBucket grouped(const AttentionShape& shape, const AttentionLengths& lengths, std::size_t doublings);
// What attention_bucket() gives where tables are used.
AttentionBucket bucket_of(const AttentionShape& shape, const AttentionLengths& lengths, bool deterministic);
// Calls for each doubling of length with room for all that a batch can hold: no bucket has larger tables.
AttentionBucket largest_bucket(const AttentionShape& shape);

// document_tables_kokkos.cpp
void write_tables(const Stream& stream, const AttentionShape& shape, const std::int32_t* document_start,
                  const DocumentTables& tables, void* memory);

}  // namespace mylos::kernels::attention
