#include "model/buffers.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/linear_cross_entropy/linear_cross_entropy.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/rms_norm/rms_norm.hpp"

namespace mylos::model {
namespace {

constexpr const char* kActivations = "activations";
constexpr const char* kWorkspace = "workspace";

// Phases that never overlap in time share memory: each starts at the same mark; close() takes the largest for good.
class SharedMemory {
 public:
  explicit SharedMemory(Arena& arena) : arena_(arena), begin_(arena.mark()), end_(begin_) {}
  void next_phase() {
    end_ = std::max(end_, arena_.mark());
    arena_.rewind(begin_);
  }
  void close() {
    next_phase();
    arena_.take(DType::u8, {end_ - begin_}, kWorkspace);
  }

 private:
  Arena& arena_;
  std::int64_t begin_, end_;
};

struct Dims {
  std::int64_t B, S, T, D, H, K, h, F, Q, W;  // Q = H·h, W = (H + 2K)·h
  DType dtype;
  bool qk_norm;
};

Tensor bytes(Arena& arena, std::int64_t n) { return arena.take(DType::u8, {n}, kWorkspace); }

// The tensors of a block that `mine` selects: those it has for itself, or (negated) those it shares.
void take_block(const Dims& d, const Kept& mine, const char* category, Arena& arena, BlockBuffers& b) {
  if (mine.norms) {
    b.h1 = arena.take(d.dtype, {d.T, d.D}, category);
    b.h2 = arena.take(d.dtype, {d.T, d.D}, category);
    if (d.qk_norm) b.qk = arena.take(d.dtype, {d.T, (d.H + d.K) * d.h}, category);
  }
  if (mine.qkv) {
    b.qkv = arena.take(d.dtype, {d.T, d.W}, category);
    if (d.qk_norm) {
      b.rstd_q = arena.take(DType::f32, {d.T * d.H}, category);
      b.rstd_k = arena.take(DType::f32, {d.T * d.K}, category);
    }
  }
  if (mine.attention) {
    b.attention = arena.take(d.dtype, {d.T, d.Q}, category);
    b.lse = arena.take(DType::f32, {d.B, d.H, d.S}, category);
  }
  if (mine.residual) {
    b.x_mid = arena.take(d.dtype, {d.T, d.D}, category);
    b.rstd2 = arena.take(DType::f32, {d.T}, category);
  }
  if (mine.gate_up) b.gate_up = arena.take(d.dtype, {d.T, 2 * d.F}, category);
  if (mine.product) b.product = arena.take(d.dtype, {d.T, d.F}, category);
}

void take_blocks(const Dims& d, const ModelConfig& model, const ExecutionConfig& execution, Arena& arena,
                 Buffers& out) {
  // The first block keeps the least.
  const Kept least = kept(policy(execution, 0));
  const Kept share{!least.norms, !least.qkv, !least.attention, !least.residual, !least.gate_up, !least.product};
  BlockBuffers shared;
  if (!execution.training) {
    // Nothing is kept: one block's tensors serve all, and norm outputs and residual streams take each other's place.
    take_block(d, {false, true, true, false, true, true}, kWorkspace, arena, shared);
    shared.h1 = shared.h2 = arena.take(d.dtype, {d.T, d.D}, kWorkspace);
    if (d.qk_norm) shared.qk = arena.take(d.dtype, {d.T, (d.H + d.K) * d.h}, kWorkspace);
    shared.x = shared.x_mid = arena.take(d.dtype, {d.T, d.D}, kWorkspace);
    shared.rstd1 = shared.rstd2 = arena.take(DType::f32, {d.T}, kWorkspace);
    out.blocks.assign(std::size_t(model.layers), shared);
    return;
  }
  take_block(d, share, kWorkspace, arena, shared);
  out.blocks.assign(std::size_t(model.layers), shared);
  for (std::size_t i = 0; i < out.blocks.size(); ++i) {
    BlockBuffers& b = out.blocks[i];
    b.x = arena.take(d.dtype, {d.T, d.D}, kActivations);
    b.rstd1 = arena.take(DType::f32, {d.T}, kActivations);
    take_block(d, kept(policy(execution, std::int64_t(i))), kActivations, arena, b);
  }
}

void take_temporaries(const Dims& d, const ModelConfig& model, const ExecutionConfig& execution, Arena& arena,
                      Buffers& out) {
  const kernels::AttentionShape shape{d.B, d.S, d.H, d.K, d.h};
  const kernels::AttentionOptions options{.deterministic = execution.deterministic, .documents = execution.documents};
  SharedMemory phases(arena);
  out.attention_forward = bytes(arena, kernels::attention_workspace(shape, d.dtype, false, options));
  phases.next_phase();
  // Head.
  out.head_chunk = kernels::linear_cross_entropy_chunk(d.T, model.vocab);
  out.head = bytes(arena, kernels::linear_cross_entropy_workspace(out.head_chunk, model.vocab, d.dtype));
  phases.next_phase();
  out.selected = arena.take(d.dtype, {d.B, d.D}, kWorkspace);
  phases.next_phase();
  if (execution.training) {
    // Feed-forward backward: the gradient of h2 comes after that of the product is consumed.
    out.product_gradient = arena.take(d.dtype, {d.T, d.F}, kWorkspace);
    phases.next_phase();
    // Attention backward. The gradient of h2 (before it) and of h1 (after it) lie where that of attention's output
    // does.
    out.qkv_gradient = arena.take(d.dtype, {d.T, d.W}, kWorkspace);
    SharedMemory beside_qkv(arena);
    out.h_gradient = arena.take(d.dtype, {d.T, d.D}, kWorkspace);
    beside_qkv.next_phase();
    out.attention_gradient = arena.take(d.dtype, {d.T, d.Q}, kWorkspace);
    out.attention_backward = bytes(arena, kernels::attention_workspace(shape, d.dtype, true, options));
    beside_qkv.close();
    phases.next_phase();
    out.embedding = bytes(arena, kernels::embedding_backward_workspace(d.T, d.D));
  }
  phases.close();
}

}  // namespace

Kept kept(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return {true, true, true, true, true, true};
    // What is left out costs one pass over memory each to get back; what is kept would cost a product or attention.
    case Recompute::selective:
      return {false, true, true, true, true, false};
    case Recompute::full:
      return {false, false, false, false, false, false};
    case Recompute::automatic:
      break;
  }
  fail("recompute 'auto' must be replaced by what fits before memory is laid out");
}

Recompute policy(const ExecutionConfig& execution, std::int64_t block) {
  if (execution.recompute_blocks == 0 || block < execution.recompute_blocks) return execution.recompute;
  return execution.recompute == Recompute::full ? Recompute::selective : Recompute::none;
}

Buffers lay_out(const ModelConfig& model, const ExecutionConfig& execution, Arena& arena) {
  const std::int64_t B = execution.batch, S = execution.sequence, T = B * S, D = model.dim;
  const std::int64_t H = model.heads, K = model.kv_heads, h = model.head_size;
  const Dims d{B, S, T, D, H, K, h, model.ffn, H * h, (H + 2 * K) * h, execution.storage, model.qk_norm};
  Buffers out;
  out.rope_table = arena.take(DType::f32, {model.max_seq_len, h}, kWorkspace);
  out.loss = arena.take(DType::f32, {T}, kWorkspace);
  out.matmul = bytes(arena, kernels::matmul_workspace());
  if (execution.training) {
    std::int64_t norm = kernels::rms_norm_backward_workspace(T, D);
    if (model.qk_norm) norm = std::max(norm, kernels::rms_norm_backward_workspace(T * H, h));
    out.norm = bytes(arena, norm);
    out.token_groups = bytes(arena, kernels::embedding_group_bytes(T, model.vocab));
  }
  const char* stream_category = execution.training ? kActivations : kWorkspace;
  take_blocks(d, model, execution, arena, out);
  out.x_final = execution.training ? arena.take(d.dtype, {T, D}, stream_category) : out.blocks.front().x;
  out.rstd_final = arena.take(DType::f32, {T}, stream_category);
  out.stream_gradient = arena.take(d.dtype, {T, D}, stream_category);
  take_temporaries(d, model, execution, arena, out);
  return out;
}

Parameters parameter_windows(const ModelConfig& model, const ParameterLayout& layout, const Tensor& flat) {
  const auto window = [&](const std::string& name) { return layout.window(flat, layout.find(name)); };
  Parameters p;
  p.embedding = window("embedding.weight");
  p.head = model.tied_head ? p.embedding : window("head.weight");
  p.norm = window("norm.weight");
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    BlockParameters b;
    b.qkv = window(layer + "attention.qkv.weight");
    b.output = window(layer + "attention.output.weight");
    b.gate_up = window(layer + "ffn.gate_up.weight");
    b.down = window(layer + "ffn.down.weight");
    b.attention_norm = window(layer + "attention.norm.weight");
    b.ffn_norm = window(layer + "ffn.norm.weight");
    if (model.qk_norm) {
      b.q_norm = window(layer + "attention.q_norm.weight");
      b.k_norm = window(layer + "attention.k_norm.weight");
    }
    p.blocks.push_back(b);
  }
  return p;
}

}  // namespace mylos::model
