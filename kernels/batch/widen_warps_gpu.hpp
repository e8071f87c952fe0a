// The widening of a micro-batch on a GPU, a warp some neighbouring tokens of a row. Not for use outside this folder.
//
// Four of five bytes are written, so what counts is that each store of a warp fills whole sectors: a lane has four
// neighbouring tokens at a time, 16 bytes of each result. Rows of S + 1 tokens begin anywhere: a lane reads the two aligned
// windows of four tokens around its own. A warp is never in step with others: its lanes hold the words of the masks.
#pragma once

#include "kernels/batch/widen_row.hpp"

namespace mylos::kernels::device {

template <class Token>
struct WidenWarps {
  static constexpr int kPack = 4, kPasses = 2, kTokens = 32 * kPack * kPasses, kWords = kTokens / 32,
                       kWordsBefore = 32 - kWords;

  const Token* tokens;
  const std::uint32_t *begins, *ignored;
  Results results;
  std::int64_t rows, sequence, words, tiles;
  bool windows;  // tokens starts at a multiple of a pack
  bool packs;    // each row of each result does

  WidenWarps(const Token* all, const std::uint32_t* all_begins, const std::uint32_t* all_ignored, const Results& to,
             std::int64_t row_count, std::int64_t row_tokens, std::int64_t row_words)
      : tokens(all),
        begins(all_begins),
        ignored(all_ignored),
        results(to),
        rows(row_count),
        sequence(row_tokens),
        words(row_words),
        tiles((row_tokens + kTokens - 1) / kTokens),
        windows(reinterpret_cast<std::uintptr_t>(all) % (kPack * sizeof(Token)) == 0),
        packs(row_tokens % kPack == 0 && is_aligned(to.tokens) && is_aligned(to.labels) && is_aligned(to.positions) &&
              is_aligned(to.document_start)) {}
  std::int64_t items() const { return rows * tiles; }

  // Item: tile `item % tiles` of row `item / tiles`. A Warp has lane(), ballot(bool) and from_lane(word, lane).
  template <class Warp>
  KOKKOS_FUNCTION void operator()(const Warp& warp, std::int64_t item) const {
    const std::int64_t r = quotient(item, tiles), first = (item - r * tiles) * kTokens, first_word = first / 32;
    const Row<Token> row(tokens, begins, ignored, results, r, sequence, words);
    const int lane = warp.lane();
    // Tokens first: they are under way while the masks are looked at.
    std::uint32_t window[kPasses][kWindow];
    int skip[kPasses];
    for (int p = 0; p < kPasses; ++p) skip[p] = load(row, r, first + (p * 32 + lane) * kPack, window[p]);

    const std::int64_t w = first_word + lane - kWordsBefore;
    const std::uint32_t begin = w >= 0 && w < words ? row.begins[w] : 0u,
                        quiet = lane >= kWordsBefore && w < words ? row.ignored[w] : 0u,
                        after = first_word + kWords < words ? row.begins[first_word + kWords] : 0u;
    const std::uint32_t any = warp.ballot(begin != 0);
    std::int32_t before = 0;
    if ((any & ((1u << kWordsBefore) - 1u)) == 0) before = last_begin(warp, row, first_word - kWordsBefore);

    for (int p = 0; p < kPasses; ++p) {
      const int source = kWordsBefore + p * kPack + lane / 8, at = lane % 8 * kPack;
      const std::uint32_t own = warp.from_lane(begin, source), none = warp.from_lane(quiet, source) >> at,
                          follows = warp.from_lane(begin, (source + 1) % 32), next = source == 31 ? after : follows;
      const std::uint32_t earlier = any & ((1u << source) - 1u);
      const int last = earlier != 0 ? last_bit(earlier) : 0;
      const std::uint32_t last_word = warp.from_lane(begin, last), seen = own & ((2u << at) - 1u);
      const std::int32_t word0 = std::int32_t(first) - 32 * kWordsBefore;  // of lane 0
      const std::int32_t start = seen != 0      ? word0 + source * 32 + last_bit(seen)
                                 : earlier != 0 ? word0 + last * 32 + last_bit(last_word)
                                                : before;
      // Bit k: token k of the lane's begins a document.
      const std::uint32_t here = own >> at | (at + kPack == 32 ? next << kPack : 0u);
      finish(row, first + (p * 32 + lane) * kPack, window[p], skip[p], here, none, start);
    }
  }

 private:
  static constexpr int kWindow = 2 * kPack * int(sizeof(Token)) / 4;  // words of two windows

  static MYLOS_FUNCTION std::int32_t last_bit(std::uint32_t word) {
    return 31 - std::int32_t(Kokkos::countl_zero(word));
  }
  // The last token before word `end` that begins a document; 0 if there is none.
  template <class Warp>
  static KOKKOS_FUNCTION std::int32_t last_begin(const Warp& warp, const Row<Token>& row, std::int64_t end) {
    constexpr int kAhead = 4;  // words a lane at a time
    for (; end > 0; end -= kAhead * 32) {
      std::uint32_t word[kAhead];
      for (int k = 0; k < kAhead; ++k) {
        const std::int64_t w = end - (k + 1) * 32 + warp.lane();
        word[k] = w >= 0 ? row.begins[w] : 0u;
      }
      for (int k = 0; k < kAhead; ++k) {
        const std::uint32_t any = warp.ballot(word[k] != 0);
        if (any == 0) continue;
        const int last = last_bit(any);
        return std::int32_t((end - (k + 1) * 32 + last) * 32) + last_bit(warp.from_lane(word[k], last));
      }
    }
    return 0;
  }

  KOKKOS_FUNCTION int count(std::int64_t t0) const {  // of the pack at t0, inside the row
    const std::int64_t left = sequence - t0;
    return left >= kPack ? kPack : left > 0 ? int(left) : 0;
  }
  // Returns where the pack begins in its windows.
  KOKKOS_FUNCTION int load(const Row<Token>& row, std::int64_t r, std::int64_t t0,
                           std::uint32_t (&window)[kWindow]) const {
    const std::int64_t at = r * (sequence + 1) + t0;
    const int n = count(t0), skip = int(at % kPack);
    if (windows && n == kPack && at - skip + 2 * kPack <= rows * (sequence + 1)) {
      const std::uint32_t* const from = reinterpret_cast<const std::uint32_t*>(row.tokens + t0 - skip);
      std::uint32_t first[kWindow / 2], second[kWindow / 2];
      load_raw<kWindow / 2>(from, first);
      load_raw<kWindow / 2>(from + kWindow / 2, second);
      for (int k = 0; k < kWindow / 2; ++k) {
        window[k] = first[k];
        window[kWindow / 2 + k] = second[k];
      }
      return skip;
    }
    std::uint32_t token[2 * kPack] = {};
    for (int k = 0; k <= kPack; ++k)
      if (n > 0 && k <= n) token[k] = row.tokens[t0 + k];
    for (int k = 0; k < kWindow; ++k)
      window[k] = sizeof(Token) == 4 ? token[k] : token[2 * k % (2 * kPack)] | token[(2 * k + 1) % (2 * kPack)] << 16;
    return 0;
  }
  // The pack and the token after it.
  static KOKKOS_FUNCTION void unpack(std::uint32_t (&w)[kWindow], int skip, std::int32_t (&token)[kPack + 1]) {
    constexpr int kTwo = 2 * int(sizeof(Token)) / 4;  // words of two tokens
    for (int k = 0; k + kTwo < kWindow; ++k) w[k] = (skip & 2) != 0 ? w[k + kTwo] : w[k];
    if constexpr (sizeof(Token) == 4) {
      for (int k = 0; k <= kPack; ++k) token[k] = std::int32_t((skip & 1) != 0 ? w[k + 1] : w[k]);
    } else {
      const std::uint32_t odd = std::uint32_t(skip & 1) * 16;
      for (int k = 0; k <= kPack; k += 2) {
        const std::uint64_t both = std::uint64_t(w[k / 2 + 1]) << 32 | w[k / 2];
        const std::uint32_t pair = std::uint32_t(both >> odd);
        token[k] = std::int32_t(pair & 0xffffu);
        if (k < kPack) token[k + 1] = std::int32_t(pair >> 16);
      }
    }
  }

  KOKKOS_FUNCTION void finish(const Row<Token>& row, std::int64_t t0, std::uint32_t (&window)[kWindow], int skip,
                              std::uint32_t here, std::uint32_t quiet, std::int32_t start) const {
    std::int32_t token[kPack + 1], label[kPack], position[kPack], from[kPack];
    unpack(window, skip, token);
    for (int k = 0; k < kPack; ++k) {
      if ((here >> k & 1u) != 0) start = std::int32_t(t0) + k;
      label[k] = (here >> (k + 1) & 1u) != 0 || (quiet >> k & 1u) != 0 ? -1 : token[k + 1];
      position[k] = std::int32_t(t0) + k - start;
      from[k] = start;
    }
    const int n = count(t0);
    const std::int32_t first[kPack] = {token[0], token[1], token[2], token[3]};
    write(row.to.tokens + t0, first, n);
    write(row.to.labels + t0, label, n);
    write(row.to.positions + t0, position, n);
    write(row.to.document_start + t0, from, n);
  }
  // Bounds of all loops are constants: an index that is not would put the values into memory.
  KOKKOS_FUNCTION void write(std::int32_t* to, const std::int32_t (&from)[kPack], int n) const {
    if (n == kPack && packs) {
      store_raw<kPack>(to, from);
    } else {
      for (int k = 0; k < kPack; ++k)
        if (k < n) to[k] = from[k];
    }
  }
};

}  // namespace mylos::kernels::device
