// Operands of attention, forward and backward, as windows of a fused projection like the model's, for trials by hand.
#pragma once

#include <vector>

#include "benchmarks/kernels/operands.hpp"
#include "kernels/attention/attention.hpp"

namespace mylos::bench {

struct AttentionOperands {
  Stream stream;
  kernels::AttentionShape s;
  Owned qkv, dqkv, out, dout, lse;  // bf16, but for lse

  explicit AttentionOperands(const kernels::AttentionShape& shape)
      : s(shape),
        qkv(normal(stream, DType::bf16, {s.batch, s.sequence, s.heads + 2 * s.kv_heads, s.head_size}, 1, 1)),
        dqkv(empty(DType::bf16, {s.batch, s.sequence, s.heads + 2 * s.kv_heads, s.head_size})),
        out(empty(DType::bf16, {s.batch, s.sequence, s.heads, s.head_size})),
        dout(normal(stream, DType::bf16, {s.batch, s.sequence, s.heads, s.head_size}, 1, 2)),
        lse(empty(DType::f32, {s.batch, s.heads, s.sequence})) {}

  // Of qkv or dqkv.
  Tensor q(const Owned& t) const { return t.tensor.slice(2, 0, s.heads); }
  Tensor k(const Owned& t) const { return t.tensor.slice(2, s.heads, s.heads + s.kv_heads); }
  Tensor v(const Owned& t) const { return t.tensor.slice(2, s.heads + s.kv_heads, s.heads + 2 * s.kv_heads); }

  std::vector<bf16> host(const Owned& t) const {
    std::vector<bf16> values(std::size_t(t.tensor.size()));
    download(stream, t.tensor, values.data(), t.tensor.bytes());
    return values;
  }
};

}  // namespace mylos::bench
