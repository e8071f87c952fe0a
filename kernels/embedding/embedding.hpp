// Token embedding: a row of the table for every token.
//
//   table [V, D] bf16 or f32; tokens [T] i32, each in [0, V) (checked on the host by the data pipeline), at most 2^30;
//   out [T, D] in the table's dtype.
//   bytes forward: 2·T·D·size; backward: T·D·size read, and each touched row of dtable read and written; grouping: 4·T read,
//   4·T of positions and 16 for each word that occurs written.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

void embedding_forward(const Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out);

// The positions of each token side by side and in their order, as work for embedding_backward. The tokens alone decide it: once a
// batch, at any time before. groups: at least embedding_group_bytes (u8), whose contents are nobody else's business.
std::int64_t embedding_group_bytes(std::int64_t tokens, std::int64_t vocabulary);
void embedding_group(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, const Tensor& groups);

// dtable[v] += sum over t with tokens[t] == v of dout[t], in fp32: v's positions in their order in blocks of 64, each summed
// from 0 on, then the blocks' sums in their order, then one addition to the table. The same bits in every run, on a CPU and on
// a GPU. dtable [V, D] bf16 or f32 (may differ from dout's dtype).
// groups: by embedding_group from as many tokens as dout has rows, and V words. They can serve again, but not two calls at a time,
// which count in them. workspace: at least embedding_backward_workspace bytes (u8).
std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t width);
void embedding_backward(const Stream& stream, const Tensor& groups, const Tensor& dout, const Tensor& workspace,
                        const Tensor& dtable);

}  // namespace mylos::kernels
