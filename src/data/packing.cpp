#include "data/packing.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <future>
#include <numeric>
#include <thread>

#include "base/error.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kBlockTokens = std::int64_t(1) << 31;
constexpr std::uint32_t kNone = ~std::uint32_t(0);

// Which of the numbers 0 .. n are in, as bits, with a bit above each word that is not empty: the least one at or above a
// given one is found in a few steps.
class Numbers {
 public:
  explicit Numbers(std::int64_t n) {
    for (std::int64_t words = n / 64 + 1;; words = (words + 63) / 64) {
      levels_.emplace_back(std::size_t(words), 0);
      if (words == 1) break;
    }
  }
  void add(std::int64_t i) {
    for (auto& level : levels_) {
      level[std::size_t(i / 64)] |= std::uint64_t(1) << (i % 64);
      i /= 64;
    }
  }
  void remove(std::int64_t i) {
    for (auto& level : levels_) {
      level[std::size_t(i / 64)] &= ~(std::uint64_t(1) << (i % 64));
      if (level[std::size_t(i / 64)] != 0) return;
      i /= 64;
    }
  }
  std::int64_t at_or_above(std::int64_t i) const {  // -1: none
    for (std::size_t l = 0; l < levels_.size(); ++l, i = i / 64 + 1) {
      if (i / 64 >= std::int64_t(levels_[l].size())) return -1;
      const std::uint64_t rest = levels_[l][std::size_t(i / 64)] >> (i % 64);
      if (rest == 0) continue;
      i += std::countr_zero(rest);
      while (l-- > 0) i = i * 64 + std::countr_zero(levels_[l][std::size_t(i)]);
      return i;
    }
    return -1;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

// Where a block begins: in which document, and how many tokens of it lie in blocks before.
struct BlockStart {
  std::int64_t document = 0, skipped = 0;
};

}  // namespace

// Packs blocks, one after the other, with the same memory.
class PackedRows::Packer {
 public:
  Packer(std::span<const std::int64_t> ends, std::int64_t sequence)
      : ends_(ends), sequence_(sequence), room_(sequence), first_(std::size_t(sequence) + 1, kNone) {}

  void pack(const BlockStart& from, const BlockStart& to, Block& block, PackingCounts& counts) {
    collect(from, to, block, counts);
    assign();
    arrange(block);
    counts.rows += std::int64_t(block.row_end.size());
  }

 private:
  std::int64_t begin_of(std::int64_t document) const { return document == 0 ? 0 : ends_[std::size_t(document) - 1]; }

  // The block's pieces in the order of the files.
  void collect(const BlockStart& from, const BlockStart& to, Block& block, PackingCounts& counts) {
    pieces_.clear();
    block.base = begin_of(from.document) + from.skipped;
    for (std::int64_t d = from.document; d < to.document || (d == to.document && to.skipped > 0); ++d) {
      const std::int64_t begin = begin_of(d) + (d == from.document ? from.skipped : 0);
      const std::int64_t end = d == to.document ? begin_of(d) + to.skipped : ends_[std::size_t(d)];
      for (std::int64_t at = begin; at < end; at += sequence_) {
        const std::int64_t length = std::min(sequence_, end - at);
        const bool goes_on = at + length < ends_[std::size_t(d)];
        if (length == 1 && !goes_on) {
          counts.left_out += 1;
          continue;
        }
        pieces_.push_back({std::uint32_t(at - block.base), std::uint32_t(length), goes_on});
        counts.tokens += length;
        counts.labels += length - 1 + goes_on;
      }
    }
    counts.pieces += std::int64_t(pieces_.size());
  }

  // row_of_ of each piece.
  void assign() {
    order_.resize(pieces_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return pieces_[a].length > pieces_[b].length; });
    row_of_.resize(pieces_.size());
    next_.clear();
    for (const std::uint32_t p : order_) {
      const std::int64_t length = pieces_[p].length;
      std::int64_t room = room_.at_or_above(length);
      std::uint32_t row;
      if (room < 0) {
        row = std::uint32_t(next_.size());
        next_.push_back(kNone);
        room = sequence_;
      } else {
        row = first_[std::size_t(room)];
        first_[std::size_t(room)] = next_[row];
        if (next_[row] == kNone) room_.remove(room);
      }
      row_of_[p] = row;
      // A room of one token holds no piece.
      if (const std::int64_t left = room - length; left > 1) {
        if (first_[std::size_t(left)] == kNone) room_.add(left);
        next_[row] = first_[std::size_t(left)];
        first_[std::size_t(left)] = row;
      }
    }
    for (std::int64_t r = 0; (r = room_.at_or_above(r)) >= 0;) {
      first_[std::size_t(r)] = kNone;
      room_.remove(r);
    }
  }

  // Rows by their first pieces, pieces within a row by their places in the files.
  void arrange(Block& block) {
    std::vector<std::uint32_t>& number = next_;  // of the row in the new order
    std::fill(number.begin(), number.end(), kNone);
    block.row_end.assign(number.size(), 0);
    std::uint32_t rows = 0;
    for (const std::uint32_t row : row_of_) {
      if (number[row] == kNone) number[row] = rows++;
      ++block.row_end[number[row]];
    }
    std::exclusive_scan(block.row_end.begin(), block.row_end.end(), block.row_end.begin(), 0u);
    block.pieces.resize(pieces_.size());
    for (std::size_t p = 0; p < pieces_.size(); ++p) block.pieces[block.row_end[number[row_of_[p]]]++] = pieces_[p];
  }

  std::span<const std::int64_t> ends_;
  std::int64_t sequence_;
  Numbers room_;                      // for which there is a row
  std::vector<std::uint32_t> first_;  // row of each room [S + 1]
  std::vector<std::uint32_t> next_;   // row of the same room, of each row
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> order_, row_of_;
};

PackedRows::PackedRows(std::span<const std::int64_t> ends, std::int64_t sequence, int threads) : sequence_(sequence) {
  check(sequence >= 2 && sequence <= kBlockTokens / 2, "rows of {} tokens; documents are packed into 2 to {}", sequence,
        kBlockTokens / 2);
  check(threads >= 0, "{} threads; it must be at least 1, or 0 for all cores", threads);
  counts_.documents = std::int64_t(ends.size());

  std::vector<BlockStart> starts{{}};
  std::int64_t pieces = 0, base = 0, begin = 0;
  for (std::int64_t d = 0; d < counts_.documents; ++d) {
    const std::int64_t end = ends[std::size_t(d)];
    check(end > begin, "document {} ends at token {}, the one before it at {}", d, end, begin);
    counts_.cut += end - begin > sequence;
    for (std::int64_t at = begin; at < end; at += sequence) {
      if (pieces == kPackedPieces || std::min(at + sequence, end) - base > kBlockTokens) {
        starts.push_back({d, at - begin});
        base = at;
        pieces = 0;
      }
      ++pieces;
    }
    begin = end;
  }
  starts.push_back({counts_.documents, 0});

  blocks_.resize(starts.size() - 1);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    Packer packer(ends, sequence);
    PackingCounts counts;
    for (std::size_t b; (b = next.fetch_add(1)) < blocks_.size();)
      packer.pack(starts[b], starts[b + 1], blocks_[b], counts);
    return counts;
  };
  const std::size_t cores = threads > 0 ? std::size_t(threads) : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<PackingCounts>> parts;
  for (std::size_t i = 0; i < std::min(cores, blocks_.size()); ++i)
    parts.push_back(std::async(std::launch::async, work));
  for (auto& part : parts) {
    const PackingCounts c = part.get();
    counts_.pieces += c.pieces;
    counts_.rows += c.rows;
    counts_.tokens += c.tokens;
    counts_.left_out += c.left_out;
    counts_.labels += c.labels;
  }
  first_row_.push_back(0);
  for (const Block& b : blocks_) first_row_.push_back(first_row_.back() + std::int64_t(b.row_end.size()));
}

PackedRow PackedRows::operator[](std::int64_t row) const {
  check(row >= 0 && row < size(), "row {} of {}", row, size());
  const std::size_t b =
      std::size_t(std::upper_bound(first_row_.begin(), first_row_.end(), row) - first_row_.begin()) - 1;
  const Block& block = blocks_[b];
  const std::size_t r = std::size_t(row - first_row_[b]);
  const std::size_t begin = r == 0 ? 0 : block.row_end[r - 1];
  return {block.base, std::span(block.pieces).subspan(begin, block.row_end[r] - begin)};
}

}  // namespace mylos::data
