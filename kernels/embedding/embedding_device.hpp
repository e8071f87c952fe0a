// The launches behind embedding.hpp; arguments are checked by the host file.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

void embedding_forward(const Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out);

std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t vocabulary);
void embedding_backward(const Stream& stream, const Tensor& tokens, const Tensor& dout, const Tensor& workspace,
                        const Tensor& dtable);

// On a CPU: order[i] = token << 32 | position, ascending: the positions of each token side by side, in their order.
// order: tokens keys, then vocabulary + 1 words to count in.
void sort_tokens(const Tensor& tokens, std::int64_t vocabulary, std::uint64_t* order);

// On a GPU: a token that occurs, and its positions in their order: order[start] to order[start + count - 1].
struct alignas(16) TokenGroup {
  std::int32_t token, count, start, first;  // first = order[start]
};
// Tokens are dealt out to buckets by their low bits. A bucket's groups are groups[base] to groups[base + all - 1], those of
// frequent tokens first.
struct alignas(16) TokenBucket {
  std::int32_t base, frequent, all, unused;
};
struct TokenGroups {
  static constexpr int kFew = 8;  // a token that occurs more often is frequent

  TokenGroup* groups;    // [T]
  TokenBucket* buckets;  // [1 << bits]
  std::int32_t* order;   // [T]
  int bits;

  static int bits_for(std::int64_t vocabulary);
  static std::int64_t bytes(std::int64_t tokens, std::int64_t vocabulary);
  TokenGroups(void* workspace, std::int64_t tokens, std::int64_t vocabulary);
};
void group_tokens(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, const TokenGroups& into);

}  // namespace mylos::kernels::device
