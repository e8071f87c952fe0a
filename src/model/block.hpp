// One decoder block: forward, recomputation of what was not kept, backward. Residual adds happen in the products of the
// output and down projections.
#pragma once

#include "model/buffers.hpp"
#include "model/transformer.hpp"

namespace mylos::model {

// What every block of a step shares.
struct BlockContext {
  const Stream& stream;
  const ModelConfig& model;
  const ExecutionConfig& execution;
  const Buffers& shared;
  const Batch& batch;
};

// From b.x to `out`, the residual stream after the block ([T, D]; may be b.x_mid).
void block_forward(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, const Tensor& out);

// Computes the tensors that the block has not kept from those that it has; the same bits as the forward pass.
void block_recompute(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, const Kept& keep);

// shared.stream_gradient: gradient of the residual stream after the block on entry, before the block on return.
// Parameter gradients are added to `g`, or overwrite it unless `accumulate`.
void block_backward(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, bool accumulate,
                    const BlockParameters& g);

// The windows of one projection buffer that attention reads or writes: q [B, S, H, h], k and v [B, S, K, h].
struct Heads {
  Tensor q, k, v;
};
// qk none: q and k lie in qkv too.
Heads heads_of(const BlockContext& c, const Tensor& qkv, const Tensor& qk);
// [T, N, h] window on heads [first, first + count) of rows that hold heads side by side.
Tensor head_rows(const BlockContext& c, const Tensor& rows, std::int64_t first, std::int64_t count);

}  // namespace mylos::model
