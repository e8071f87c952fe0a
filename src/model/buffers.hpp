// The memory of one transformer on one device: what each block keeps for its backward pass, and the temporaries that
// all blocks share. One layout function, run on a measuring or a real Arena.
//
// Recomputation is a policy per tensor and block: `Kept` says which tensors a block has for itself; the others exist
// once, shared by all blocks, and are computed again before the block's backward pass. none / selective / full are
// presets, and the first blocks may follow a heavier one than the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.hpp"
#include "model/parameters.hpp"
#include "tensor/arena.hpp"

namespace mylos::model {

struct Kept {
  bool norms;      // h1, h2: outputs of the two norms; with qk_norm also the normed and rotated q|k
  bool qkv;        // the fused projection
  bool attention;  // output and lse
  bool residual;   // x_mid, the residual stream between attention and feed-forward, and its rstd
  bool gate_up;    // [T, 2F]
  bool product;    // silu(gate) * up
};
Kept kept(Recompute recompute);
Recompute policy(const ExecutionConfig& execution, std::int64_t block);

// One block's tensors. T = B·S tokens, W = (H + 2K)·h.
struct BlockBuffers {
  Tensor x;               // [T, D] residual stream at the block's entry: always kept
  Tensor rstd1, rstd2;    // [T] f32
  Tensor h1, h2;          // [T, D]
  Tensor qkv;             // [T, W]; q and k rotated in place, unless qk_norm
  Tensor qk;              // [T, (H + K)·h] normed and rotated, with qk_norm only
  Tensor rstd_q, rstd_k;  // [T·H], [T·K] f32, with qk_norm only
  Tensor attention;       // [T, H·h]
  Tensor lse;             // [B, H, S] f32
  Tensor x_mid;           // [T, D]
  Tensor gate_up;         // [T, 2F]; its gradient takes its place
  Tensor product;         // [T, F]
};

struct Buffers {
  std::vector<BlockBuffers> blocks;

  // Alive from the last block to the first.
  Tensor x_final;          // [T, D] residual stream after the last block
  Tensor rstd_final;       // [T] f32
  Tensor stream_gradient;  // [T, D]: final norm's output, then the gradient of the residual stream, in turn

  Tensor rope_table;    // [max_seq_len, h] f32
  Tensor loss;          // [T] f32
  Tensor matmul, norm;  // workspaces of the ops
  Tensor token_groups;  // of the batch, for the embedding's gradient: alive from the first op to the last

  Tensor attention_forward;  // workspace of forward and recomputation
  // Head.
  std::int64_t head_chunk = 0;
  Tensor head;
  Tensor selected;  // [B, D], rows that logits_at() reads
  // Backward; tensors of different lines share memory where their lives allow.
  Tensor product_gradient;    // [T, F]
  Tensor h_gradient;          // [T, D] of h1 or h2
  Tensor attention_gradient;  // [T, H·h]
  Tensor attention_backward;  // workspace
  Tensor qkv_gradient;        // [T, W]
  Tensor embedding;           // workspace
};

Buffers lay_out(const ModelConfig& model, const ExecutionConfig& execution, Arena& arena);

// The windows of one block's parameters in a flat buffer (weights or gradients), and of those outside blocks.
struct BlockParameters {
  Tensor qkv, output, gate_up, down, attention_norm, ffn_norm, q_norm, k_norm;
};
struct Parameters {
  Tensor embedding, head, norm;  // head is embedding when tied
  std::vector<BlockParameters> blocks;
};
Parameters parameter_windows(const ModelConfig& model, const ParameterLayout& layout, const Tensor& flat);

}  // namespace mylos::model
