// What a dense Llama-3 decoder is made of, and how it is run. Letters: D dim, L layers, H heads, K kv_heads, h
// head_size, F ffn, V vocab.
#pragma once

#include <cstdint>

#include "base/config.hpp"
#include "tensor/dtype.hpp"

namespace mylos::model {

struct ModelConfig {
  std::int64_t dim = 256;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;   // 0: heads
  std::int64_t head_size = 0;  // 0: dim / heads
  std::int64_t ffn = 0;        // 0: 256 * ceil(int(8 * dim / 3 * ffn_multiplier) / 256)
  double ffn_multiplier = 1.0;
  std::int64_t vocab = 512;
  std::int64_t max_seq_len = 512;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  bool tied_head = false;
  bool qk_norm = false;    // RMSNorm over each head of q and k, before RoPE
  double init_std = 0.02;  // o and down projections: init_std / sqrt(2 L)
};

void bind(ConfigBinder& keys, ModelConfig& config);
// Replaces zeros by what they stand for and checks that everything fits together (heads a multiple of kv_heads, even
// head size, ...); throws Error that names the key.
ModelConfig resolve(ModelConfig config);

// automatic stands for one of the others until the memory plan has chosen (train::with_recompute).
enum class Recompute { none, selective, full, automatic };

// How one device runs the model.
struct ExecutionConfig {
  std::int64_t batch = 1;       // B sequences in a micro-batch
  std::int64_t sequence = 512;  // S tokens each
  Recompute recompute = Recompute::none;
  std::int64_t recompute_blocks = 0;  // the first so many blocks (0: all); the others follow the next lighter policy
  DType storage = DType::f32;         // weights and activations: f32 or bf16
  DType gradients = DType::f32;       // f32 or bf16
  bool training = true;               // false: no gradients, no saved activations
  bool deterministic = true;          // false: attention's backward may differ in its last bits from run to run (GPU)
  // SwiGLU in the end of the product before it, forward and backward (bf16 on Hopper; kernels/linear_swiglu)
  bool fused_swiglu_forward = false, fused_swiglu_backward = false;
  bool documents = true;  // false: no batch has documents, so that attention needs no memory for them
};

}  // namespace mylos::model
