// The positions of each token on a GPU, side by side, as work for the embedding's gradient. Not for use outside this folder.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

// A token that occurs at most kFew times: its positions in their order are order[start] to order[start + count - 1].
struct alignas(16) TokenGroup {
  std::int32_t token, count, start, first;  // first = order[start]
};
// Block `index` of the `blocks` of a more frequent token. Where there are several, their sums meet in slots `slot` and on;
// else slot is -1.
struct alignas(16) TokenBlock {
  std::int32_t token, start, rows, index, blocks, slot, unused[2];
};
struct alignas(16) TokenCounts {
  std::int32_t groups, blocks, slots, unused;
};

// Tokens are dealt out to buckets by their low bits; groups and blocks are in the order in which buckets came.
struct TokenGroups {
  static constexpr int kFew = 8, kBlock = 64;
  static constexpr int kTiles = 16;  // parts of a row that are worked on at a time

  TokenGroup* groups;      // [T]
  TokenBlock* blocks;      // [T / (kFew + 1)]
  TokenCounts* counts;     // [1]
  std::int32_t* arrivals;  // [slots, kTiles]: how many of a token's blocks are summed; 0 between calls
  std::int32_t* order;     // [T]
  std::int64_t max_slots;
  int bits;

  static int bits_for(std::int64_t vocabulary);
  static std::int64_t slots_for(std::int64_t tokens) { return tokens / (kBlock / 2); }  // kBlock + 1 positions have two
  static std::int64_t bytes(std::int64_t tokens);
  TokenGroups(void* memory, std::int64_t tokens, std::int64_t vocabulary);
};
void group_tokens(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, const TokenGroups& into);

}  // namespace mylos::kernels::device
