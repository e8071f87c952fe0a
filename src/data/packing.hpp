// Rows of S tokens filled with whole documents: best-fit decreasing, within blocks of neighbouring documents.
//
// A document of up to S tokens lies in one row, whole. A longer one is cut into pieces of S, each a row of its own whose
// last label is the first token of the next piece, and a rest, which is packed as a short document is. What has one token
// alone has no label and is left out. A block holds 65,536 pieces (fewer when they have more than 2^31 tokens): each of
// its pieces, longest first, goes into the row with the least room that still holds it (Johnson, "Near-optimal bin packing
// algorithms", MIT 1973), so documents of a row lie near each other in the files. Rows stand in the order of their first
// documents. The table is a function of the documents and S alone, whatever the number of threads. It keeps 8 bytes a
// piece and 4 a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mylos::data {

inline constexpr std::int64_t kPackedPieces = 65536;  // of a block

// Tokens offset .. offset + length - 1 after the block's first one.
struct Piece {
  std::uint32_t offset;
  std::uint32_t length : 31;
  std::uint32_t goes_on : 1;  // the next token belongs to the same document: it is the last one's label
};

struct PackedRow {
  std::int64_t base = 0;  // the block's first token
  std::span<const Piece> pieces;
};

struct PackingCounts {
  std::int64_t documents = 0;  // all, those left out too
  std::int64_t cut = 0;        // documents longer than S
  std::int64_t pieces = 0, rows = 0;
  std::int64_t tokens = 0;    // in rows; the rest of rows · S is padding
  std::int64_t left_out = 0;  // tokens: documents and rests of one token
  std::int64_t labels = 0;    // of all rows
};

class PackedRows {
 public:
  // ends: the token after each document, rising; the first document begins at token 0. threads 0: all cores.
  PackedRows(std::span<const std::int64_t> ends, std::int64_t sequence, int threads = 0);

  std::int64_t size() const { return counts_.rows; }
  PackedRow operator[](std::int64_t row) const;
  const PackingCounts& counts() const { return counts_; }
  double fill() const { return double(counts_.tokens) / (double(counts_.rows) * double(sequence_)); }

 private:
  struct Block {
    std::int64_t base = 0;
    std::vector<Piece> pieces;           // row after row
    std::vector<std::uint32_t> row_end;  // the piece after each row's last
  };
  class Packer;

  std::int64_t sequence_;
  std::vector<Block> blocks_;
  std::vector<std::int64_t> first_row_;  // of each block, then the total
  PackingCounts counts_;
};

}  // namespace mylos::data
