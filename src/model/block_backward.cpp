#include "kernels/attention/attention.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/rms_norm/rms_norm.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "model/block.hpp"
#include "tensor/region.hpp"

namespace mylos::model {
namespace {

void feed_forward_backward(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, bool accumulate,
                           const BlockParameters& g) {
  const Buffers& s = c.shared;
  const Tensor& dx = s.stream_gradient;
  const Tensor& gate_up_gradient = b.gate_up;
  const bool fused = c.execution.fused_swiglu_backward;
  {
    const Region region(c.stream, "backward", "matmul/down");
    kernels::linear_backward_weight(c.stream, dx, b.product, accumulate, s.matmul, g.down);
    if (fused)
      kernels::linear_swiglu_backward(c.stream, dx, w.down, b.gate_up, s.matmul, s.product_gradient, gate_up_gradient,
                                      kernels::LinearSwiglu::fused);
    else
      kernels::linear_backward_input(c.stream, dx, w.down, false, s.matmul, s.product_gradient);
  }
  if (!fused) {
    const Region region(c.stream, "backward", "swiglu");
    kernels::swiglu_backward(c.stream, b.gate_up, s.product_gradient, gate_up_gradient);
  }
  {
    const Region region(c.stream, "backward", "matmul/gate_up");
    kernels::linear_backward_weight(c.stream, gate_up_gradient, b.h2, accumulate, s.matmul, g.gate_up);
    kernels::linear_backward_input(c.stream, gate_up_gradient, w.gate_up, false, s.matmul, s.h_gradient);
  }
  const Region region(c.stream, "backward", "rms_norm/ffn");
  // The gradient of x_mid: through the norm, and past the feed-forward.
  kernels::rms_norm_backward(c.stream, s.h_gradient, b.x_mid, w.ffn_norm, b.rstd2, dx, accumulate, s.norm, dx,
                             g.ffn_norm);
}

void attention_backward(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, bool accumulate,
                        const BlockParameters& g) {
  const Buffers& s = c.shared;
  const ModelConfig& m = c.model;
  const std::int64_t B = c.execution.batch, S = c.execution.sequence, H = m.heads, K = m.kv_heads, h = m.head_size;
  const Tensor& dx = s.stream_gradient;
  {
    const Region region(c.stream, "backward", "matmul/output");
    kernels::linear_backward_weight(c.stream, dx, b.attention, accumulate, s.matmul, g.output);
    kernels::linear_backward_input(c.stream, dx, w.output, false, s.matmul, s.attention_gradient);
  }

  const Heads in = heads_of(c, b.qkv, b.qk), out = heads_of(c, s.qkv_gradient, Tensor());
  {
    const Region region(c.stream, "backward", "attention");
    kernels::attention_backward(c.stream, in.q, in.k, in.v, c.batch.documents, b.attention.reshape({B, S, H, h}), b.lse,
                                s.attention_gradient.reshape({B, S, H, h}), s.attention_backward, out.q, out.k, out.v,
                                {.deterministic = c.execution.deterministic});
  }
  {
    const Region region(c.stream, "backward", "rope");
    kernels::rope(c.stream, kernels::RopeDirection::backward, s.rope_table, c.batch.positions,
                  head_rows(c, s.qkv_gradient, 0, H + K));
  }
  if (m.qk_norm) {
    const Region region(c.stream, "backward", "rms_norm/qk");
    const Tensor dq = head_rows(c, s.qkv_gradient, 0, H), dk = head_rows(c, s.qkv_gradient, H, K);
    kernels::rms_norm_backward(c.stream, dq, head_rows(c, b.qkv, 0, H), w.q_norm, b.rstd_q, Tensor(), accumulate,
                               s.norm, dq, g.q_norm);
    kernels::rms_norm_backward(c.stream, dk, head_rows(c, b.qkv, H, K), w.k_norm, b.rstd_k, Tensor(), accumulate,
                               s.norm, dk, g.k_norm);
  }

  {
    const Region region(c.stream, "backward", "matmul/qkv");
    kernels::linear_backward_weight(c.stream, s.qkv_gradient, b.h1, accumulate, s.matmul, g.qkv);
    kernels::linear_backward_input(c.stream, s.qkv_gradient, w.qkv, false, s.matmul, s.h_gradient);
  }
  const Region region(c.stream, "backward", "rms_norm/attention");
  kernels::rms_norm_backward(c.stream, s.h_gradient, b.x, w.attention_norm, b.rstd1, dx, accumulate, s.norm, dx,
                             g.attention_norm);
}

}  // namespace

void block_backward(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, bool accumulate,
                    const BlockParameters& g) {
  feed_forward_backward(c, w, b, accumulate, g);
  attention_backward(c, w, b, accumulate, g);
}

}  // namespace mylos::model
