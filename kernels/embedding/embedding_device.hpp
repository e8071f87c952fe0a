// The launches behind embedding.hpp; arguments are checked by the host file.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::device {

void embedding_forward(const Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out);

std::int64_t embedding_group_bytes(std::int64_t tokens, std::int64_t vocabulary);
void embedding_group(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, const Tensor& groups);

std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t width);
void embedding_backward(const Stream& stream, const Tensor& groups, const Tensor& dout, const Tensor& workspace,
                        const Tensor& dtable);

// On a CPU: order[i] = token << 32 | position, ascending: the positions of each token side by side, in their order.
// order: tokens keys, then vocabulary + 1 words to count in.
void sort_tokens(const Tensor& tokens, std::int64_t vocabulary, std::uint64_t* order);

}  // namespace mylos::kernels::device
