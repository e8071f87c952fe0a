#include <algorithm>

#include "kernels/batch/batch_device.hpp"
#include "kernels/detail/rows.hpp"

namespace mylos::kernels::device {
namespace {

struct Results {
  std::int32_t *tokens, *labels, *positions, *document_start;
};

template <class Token>
struct Row {
  const Token* tokens;  // S + 1
  const std::uint32_t *begins, *ignored;
  Results to;

  KOKKOS_FUNCTION Row(const Token* all, const std::uint32_t* all_begins, const std::uint32_t* all_ignored,
                      const Results& results, std::int64_t row, std::int64_t sequence, std::int64_t words)
      : tokens(all + row * (sequence + 1)),
        begins(all_begins + row * words),
        ignored(all_ignored + row * words),
        to{results.tokens + row * sequence, results.labels + row * sequence, results.positions + row * sequence,
           results.document_start + row * sequence} {}
};

// A team has kTile tokens of a row, a thread kPack neighbours, which share a word of the masks. The document that reaches
// into the tile is the last to begin in the words before it: the team looks at them together.
template <class Token>
struct WidenTile {
  static constexpr int kPack = 8, kThreads = 128, kTile = kPack * kThreads, kWords = kTile / 32;

  const Token* tokens;
  const std::uint32_t *begins, *ignored;
  Results results;
  std::int64_t sequence, words, tiles;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t r = quotient(member.league_rank(), tiles), tile = member.league_rank() - r * tiles;
    const Row<Token> row(tokens, begins, ignored, results, r, sequence, words);
    // Tokens first: they are under way while the masks are looked at.
    const std::int64_t t0 = tile * kTile + std::int64_t(member.team_rank()) * kPack, left = sequence - t0;
    const int n = left >= kPack ? kPack : left > 0 ? int(left) : 0;
    std::int32_t token[kPack];
    for (int k = 0; k < kPack; ++k) token[k] = n > 0 && k <= n ? std::int32_t(row.tokens[t0 + k]) : 0;
    const std::int32_t last = n == kPack ? std::int32_t(row.tokens[t0 + kPack]) : 0;

    const std::int64_t first_word = tile * kWords;
    std::int32_t before = 0;
    for (std::int64_t w = member.team_rank(); w < first_word; w += kThreads)
      if (row.begins[w] != 0) before = std::int32_t(w * 32) + last_bit(row.begins[w]);
    if (first_word > 0) member.team_reduce(Kokkos::Max<std::int32_t>(before));

    if (n == 0) return;
    std::int64_t w = t0 / 32;
    const int at = int(t0 % 32);
    const std::uint32_t own = row.begins[w], next = w + 1 < words ? row.begins[w + 1] : 0u, none = row.ignored[w];
    std::uint32_t seen = own & ((2u << at) - 1u);
    while (seen == 0 && w > first_word) seen = row.begins[--w];
    std::int32_t start = seen != 0 ? std::int32_t(w * 32) + last_bit(seen) : before;

    // Bit k: token t0 + k begins a document.
    const std::uint32_t here = own >> at | (at + kPack == 32 ? next << kPack : 0u), quiet = none >> at;
    std::int32_t label[kPack], position[kPack], from[kPack];
    for (int k = 0; k < kPack; ++k) {
      if ((here >> k & 1u) != 0) start = std::int32_t(t0) + k;
      const std::int32_t next_token = k + 1 < kPack ? token[k + 1 < kPack ? k + 1 : 0] : last;
      label[k] = (here >> (k + 1) & 1u) != 0 || (quiet >> k & 1u) != 0 ? -1 : next_token;
      position[k] = std::int32_t(t0) + k - start;
      from[k] = start;
    }
    write(row.to.tokens + t0, token, n);
    write(row.to.labels + t0, label, n);
    write(row.to.positions + t0, position, n);
    write(row.to.document_start + t0, from, n);
  }

 private:
  static MYLOS_FUNCTION std::int32_t last_bit(std::uint32_t word) {
    return 31 - std::int32_t(Kokkos::countl_zero(word));
  }
  // Bounds of all loops are constants: an index that is not would put the values into memory.
  KOKKOS_FUNCTION void write(std::int32_t* to, const std::int32_t (&from)[kPack], int n) const {
    if (n == kPack && sequence % 4 == 0) {
      for (int half = 0; half < kPack; half += 4) {
        const std::int32_t four[4] = {from[half], from[half + 1], from[half + 2], from[half + 3]};
        store_raw<4>(to + half, four);
      }
    } else {
      for (int k = 0; k < kPack; ++k)
        if (k < n) to[k] = from[k];
    }
  }
};

// A row on a CPU, document by document.
template <class Token>
struct WidenRow {
  const Token* tokens;
  const std::uint32_t *begins, *ignored;
  Results results;
  std::int64_t sequence, words;

  void operator()(std::int64_t r) const {
    const Row<Token> row(tokens, begins, ignored, results, r, sequence, words);
    MYLOS_SIMD
    for (std::int64_t t = 0; t < sequence; ++t) {
      row.to.tokens[t] = std::int32_t(row.tokens[t]);
      row.to.labels[t] = std::int32_t(row.tokens[t + 1]);
    }
    std::int64_t start = 0;
    for (std::int64_t w = 0; w < words; ++w) {
      for (std::uint32_t bits = row.begins[w]; bits != 0; bits &= bits - 1) {
        const std::int64_t t = w * 32 + Kokkos::countr_zero(bits);
        if (t == 0) continue;
        const std::int64_t end = std::min(t, sequence);
        document(row, start, end);
        if (t <= sequence) row.to.labels[t - 1] = -1;
        start = end;
      }
      for (std::uint32_t bits = row.ignored[w]; bits != 0; bits &= bits - 1) {
        const std::int64_t t = w * 32 + Kokkos::countr_zero(bits);
        if (t < sequence) row.to.labels[t] = -1;
      }
    }
    document(row, start, sequence);
  }

 private:
  static void document(const Row<Token>& row, std::int64_t start, std::int64_t end) {
    MYLOS_SIMD
    for (std::int64_t t = start; t < end; ++t) {
      row.to.positions[t] = std::int32_t(t - start);
      row.to.document_start[t] = std::int32_t(start);
    }
  }
};

template <class Token>
void widen(const Exec& exec, const PackedBatch& packed, const Results& results, std::int64_t rows,
           std::int64_t sequence) {
  constexpr const char* kLabel = "mylos::batch::widen";
  const auto* tokens = packed.tokens.as<Token>();
  const auto *begins = packed.begins.as<std::uint32_t>(), *ignored = packed.ignored.as<std::uint32_t>();
  const std::int64_t words = packed.begins.extent(1);
  if constexpr (kOnGpu) {
    using Tile = WidenTile<Token>;
    const std::int64_t tiles = (sequence + Tile::kTile - 1) / Tile::kTile;
    Kokkos::parallel_for(kLabel, TeamPolicy(exec, int(rows * tiles), Tile::kThreads),
                         Tile{tokens, begins, ignored, results, sequence, words, tiles});
  } else {
    Kokkos::parallel_for(kLabel, Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec, 0, rows),
                         WidenRow<Token>{tokens, begins, ignored, results, sequence, words});
  }
}

}  // namespace

void widen_batch(const Stream& stream, const PackedBatch& packed, const Tensor& tokens, const Tensor& labels,
                 const Tensor& positions, const Tensor& document_start) {
  const Results results{tokens.as<std::int32_t>(), labels.as<std::int32_t>(), positions.as<std::int32_t>(),
                        document_start.as<std::int32_t>()};
  const std::int64_t rows = tokens.extent(0), sequence = tokens.extent(1);
  if (packed.tokens.dtype() == DType::u16) {
    widen<std::uint16_t>(exec_of(stream), packed, results, rows, sequence);
  } else {
    widen<std::uint32_t>(exec_of(stream), packed, results, rows, sequence);
  }
}

}  // namespace mylos::kernels::device
