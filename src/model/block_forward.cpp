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

// Each op is marked with the phase that it runs in: "forward" or "recompute".

void project_qkv(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, const char* phase) {
  const Region region(c.stream, phase, "matmul/qkv");
  kernels::linear_forward(c.stream, b.h1, w.qkv, c.shared.matmul, b.qkv);
}

// qkv as projected -> q and k ready for attention. With qk_norm the norm's input must survive for its backward pass, so
// the normed q|k goes elsewhere; else RoPE rotates in place. `rstd_known` is for recomputation.
void normalize_and_rotate(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, bool rstd_known,
                          const char* phase) {
  const ModelConfig& m = c.model;
  const Tensor rotated = m.qk_norm ? b.qk : b.qkv;
  if (m.qk_norm) {
    const Region region(c.stream, phase, "rms_norm/qk");
    const Tensor q = head_rows(c, b.qkv, 0, m.heads), k = head_rows(c, b.qkv, m.heads, m.kv_heads);
    const Tensor q_out = head_rows(c, b.qk, 0, m.heads), k_out = head_rows(c, b.qk, m.heads, m.kv_heads);
    if (rstd_known) {
      kernels::rms_norm_apply(c.stream, q, w.q_norm, b.rstd_q, q_out);
      kernels::rms_norm_apply(c.stream, k, w.k_norm, b.rstd_k, k_out);
    } else {
      kernels::rms_norm_forward(c.stream, q, w.q_norm, float(m.norm_eps), q_out, b.rstd_q);
      kernels::rms_norm_forward(c.stream, k, w.k_norm, float(m.norm_eps), k_out, b.rstd_k);
    }
  }
  const Region region(c.stream, phase, "rope");
  kernels::rope(c.stream, kernels::RopeDirection::forward, c.shared.rope_table, c.batch.positions,
                head_rows(c, rotated, 0, m.heads + m.kv_heads));
}

void attend(const BlockContext& c, const BlockBuffers& b, const char* phase) {
  const Region region(c.stream, phase, "attention");
  const Heads in = heads_of(c, b.qkv, b.qk);
  const Tensor out = b.attention.reshape({c.execution.batch, c.execution.sequence, c.model.heads, c.model.head_size});
  kernels::attention_forward(c.stream, in.q, in.k, in.v, c.batch.documents, c.shared.attention_forward, out, b.lse);
}

void norm(const BlockContext& c, const Tensor& x, const Tensor& w, const Tensor& h, const Tensor& rstd,
          const char* phase, const char* op) {
  const Region region(c.stream, phase, op);
  kernels::rms_norm_forward(c.stream, x, w, float(c.model.norm_eps), h, rstd);
}

// The residual stream joins through the product's own addend: no pass over memory is spent on it.
void project_output(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, const char* phase) {
  const Region region(c.stream, phase, "matmul/output");
  kernels::linear_forward_residual(c.stream, b.attention, w.output, b.x, c.shared.matmul, b.x_mid);
}

// gate_up, the product of its halves, or both; both may be one op.
void project_and_activate(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, bool project,
                          bool activate, const char* phase) {
  if (project) {
    const Region region(c.stream, phase, "matmul/gate_up");
    if (activate && c.execution.fused_swiglu_forward)
      return kernels::linear_swiglu_forward(c.stream, b.h2, w.gate_up, c.shared.matmul, b.gate_up, b.product,
                                            kernels::LinearSwiglu::fused);
    kernels::linear_forward(c.stream, b.h2, w.gate_up, c.shared.matmul, b.gate_up);
  }
  if (!activate) return;
  const Region region(c.stream, phase, "swiglu");
  kernels::swiglu_forward(c.stream, b.gate_up, b.product);
}

}  // namespace

Tensor head_rows(const BlockContext& c, const Tensor& rows, std::int64_t first, std::int64_t count) {
  const std::int64_t h = c.model.head_size;
  return rows.reshape({rows.extent(0), rows.extent(1) / h, h}).slice(1, first, first + count);
}

Heads heads_of(const BlockContext& c, const Tensor& qkv, const Tensor& qk) {
  const std::int64_t B = c.execution.batch, S = c.execution.sequence, H = c.model.heads, K = c.model.kv_heads,
                     h = c.model.head_size;
  const Tensor all = qkv.reshape({B, S, H + 2 * K, h});
  const Tensor rotated = qk ? qk.reshape({B, S, H + K, h}) : all;
  return {rotated.slice(2, 0, H), rotated.slice(2, H, H + K), all.slice(2, H + K, H + 2 * K)};
}

void block_forward(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, const Tensor& out) {
  constexpr const char* kPhase = "forward";
  norm(c, b.x, w.attention_norm, b.h1, b.rstd1, kPhase, "rms_norm/attention");
  project_qkv(c, w, b, kPhase);
  normalize_and_rotate(c, w, b, false, kPhase);
  attend(c, b, kPhase);
  project_output(c, w, b, kPhase);
  norm(c, b.x_mid, w.ffn_norm, b.h2, b.rstd2, kPhase, "rms_norm/ffn");
  project_and_activate(c, w, b, true, true, kPhase);
  const Region region(c.stream, kPhase, "matmul/down");
  kernels::linear_forward_residual(c.stream, b.product, w.down, b.x_mid, c.shared.matmul, out);
}

void block_recompute(const BlockContext& c, const BlockParameters& w, const BlockBuffers& b, const Kept& keep) {
  constexpr const char* kPhase = "recompute";
  if (!keep.norms) {
    const Region region(c.stream, kPhase, "rms_norm/attention");
    kernels::rms_norm_apply(c.stream, b.x, w.attention_norm, b.rstd1, b.h1);
  }
  if (!keep.qkv) {
    project_qkv(c, w, b, kPhase);
    normalize_and_rotate(c, w, b, false, kPhase);
  } else if (!keep.norms && c.model.qk_norm) {
    normalize_and_rotate(c, w, b, true, kPhase);
  }
  if (!keep.attention) attend(c, b, kPhase);
  if (!keep.residual) {
    project_output(c, w, b, kPhase);
    norm(c, b.x_mid, w.ffn_norm, b.h2, b.rstd2, kPhase, "rms_norm/ffn");
  } else if (!keep.norms) {
    const Region region(c.stream, kPhase, "rms_norm/ffn");
    kernels::rms_norm_apply(c.stream, b.x_mid, w.ffn_norm, b.rstd2, b.h2);
  }
  project_and_activate(c, w, b, !keep.gate_up, !keep.product, kPhase);
}

}  // namespace mylos::model
