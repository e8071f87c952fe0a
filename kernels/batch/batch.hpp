// A micro-batch as a model wants it, from the narrow form in which it crosses to the device (data/host_batch.hpp).
//
//   packed.tokens [B, S + 1] u16 or u32; packed.begins, packed.ignored [B, ceil((S + 1) / 32)] u32, one bit a token
//   tokens [B, S] i32
//   labels [B, S] i32: the next token; -1 where that begins a document or the token is ignored
//   positions [B, S] i32: from 0 in each document
//   document_start [B, S] i32: the place in its row of the first token of a token's document
// All dense. bytes: (2 or 4) + 16 a token, and two bits.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels {

struct PackedBatch {
  Tensor tokens, begins, ignored;
};

void widen_batch(const Stream& stream, const PackedBatch& packed, const Tensor& tokens, const Tensor& labels,
                 const Tensor& positions, const Tensor& document_start);

}  // namespace mylos::kernels
