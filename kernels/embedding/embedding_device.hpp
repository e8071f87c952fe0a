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

// On a GPU: how often each token occurs and, for one that occurs more than once, its positions in their order:
// order[start[token]] to order[start[token] + count[token] - 1]. Only entries of tokens that occur mean anything. Where a
// token's list lies may differ between runs, what it says may not.
struct Occurrences {
  std::int32_t *count, *start;                    // [V]
  std::int32_t *arrival, *unordered, *order;      // [T]; arrival 0 has one position of each token
  std::int32_t *frequent, *used, *frequent_used;  // [T]: tokens that occur more than kFew times; [1], [1]

  static constexpr int kFew = 8;
};
Occurrences group_tokens(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, std::int32_t* workspace);

}  // namespace mylos::kernels::device
