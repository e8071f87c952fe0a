#include "model/flops.hpp"

#include <algorithm>

#include "model/buffers.hpp"
#include "model/parameters.hpp"

namespace mylos::model {
namespace {

// Collects ops; `repeat` is how often each happens in the step.
class Ledger {
 public:
  Ledger(const ModelConfig& m, const ExecutionConfig& e)
      : m_(m),
        e_(e),
        T_(double(e.batch * e.sequence)),
        size_(double(size_of(e.storage))),
        grad_size_(double(size_of(e.gradients))) {}

  void repeat(Phase phase, std::int64_t calls) { phase_ = phase, calls_ = calls; }

  // y [T, out] = x [T, in] · wᵀ and its two gradients.
  // `more` [T, more]: what is read and written beside: an addend, SwiGLU in its end.
  void product(const char* op, std::int64_t in, std::int64_t out, std::int64_t more = 0) {
    const double moved = (T_ * double(in + out + more) + double(in) * double(out)) * size_;
    add(op, 2 * T_ * double(in) * double(out), moved);
  }
  void product_backward(const char* op, std::int64_t in, std::int64_t out, std::int64_t more = 0) {
    const double rows = T_ * double(2 * (in + out) + more), matrix = double(in) * double(out);
    add(op, 4 * T_ * matrix, (rows + matrix) * size_ + 2 * matrix * grad_size_);
  }
  // Logits, their gradient in their place and from it the two products are one op, so it counts as backward as a whole.
  void head_backward(std::int64_t in, std::int64_t out) {
    const double rows = T_ * double(3 * in + 5 * out), matrix = double(in) * double(out);
    add("linear_cross_entropy", 6 * T_ * matrix, (rows + 2 * matrix) * size_ + 2 * matrix * grad_size_);
  }
  void attention_forward() {
    add("attention", 2 * T_ * scores(), T_ * double((2 * m_.heads + 2 * m_.kv_heads) * m_.head_size) * size_);
  }
  void attention_backward() {
    add("attention", 5 * T_ * scores(), T_ * double((4 * m_.heads + 4 * m_.kv_heads) * m_.head_size) * size_);
  }
  void elementwise(const char* op, double values_per_token, double flops_per_token = 0) {
    add(op, T_ * flops_per_token, T_ * values_per_token * size_);
  }
  void add(const char* op, double flops, double bytes) {
    if (calls_ == 0) return;
    const auto same =
        std::find_if(ops_.begin(), ops_.end(), [&](const OpCost& o) { return o.phase == phase_ && o.op == op; });
    OpCost& cost = same != ops_.end() ? *same : ops_.emplace_back(OpCost{op, phase_, 0, 0, 0, e_.storage});
    cost.calls += calls_;
    cost.flops += double(calls_) * flops;
    cost.bytes += double(calls_) * bytes;
  }
  std::vector<OpCost> take() { return std::move(ops_); }

 private:
  double scores() const {
    return double(e_.sequence * m_.heads * m_.head_size);
  }  // of a token over the whole sequence, times h

  const ModelConfig& m_;
  const ExecutionConfig& e_;
  double T_, size_, grad_size_;
  Phase phase_ = Phase::forward;
  std::int64_t calls_ = 0;
  std::vector<OpCost> ops_;
};

void add_block_forward(Ledger& l, const ModelConfig& m, bool fused_swiglu, const Kept& skip) {
  const std::int64_t D = m.dim, Q = m.heads * m.head_size, W = (m.heads + 2 * m.kv_heads) * m.head_size, F = m.ffn;
  const double rotated = double((m.heads + m.kv_heads) * m.head_size);
  if (!skip.norms) l.elementwise("rms_norm/attention", 2.0 * double(D), 4.0 * double(D));
  if (!skip.qkv) l.product("matmul/qkv", D, W);
  if (m.qk_norm && !skip.norms) l.elementwise("rms_norm/qk", 2.0 * rotated, 4.0 * rotated);
  if (!skip.qkv || (m.qk_norm && !skip.norms)) l.elementwise("rope", 2.0 * rotated);
  if (!skip.attention) l.attention_forward();
  if (!skip.residual) l.product("matmul/output", Q, D, D);
  if (!skip.norms || !skip.residual) l.elementwise("rms_norm/ffn", 2.0 * double(D), 4.0 * double(D));
  const bool fused = fused_swiglu && !skip.gate_up && !skip.product;
  if (!skip.gate_up) l.product("matmul/gate_up", D, 2 * F, fused ? F : 0);
  if (!skip.product && !fused) l.elementwise("swiglu", 3.0 * double(F));
}

void add_block_backward(Ledger& l, const ModelConfig& m, bool fused_swiglu) {
  const std::int64_t D = m.dim, Q = m.heads * m.head_size, W = (m.heads + 2 * m.kv_heads) * m.head_size, F = m.ffn;
  const double rotated = double((m.heads + m.kv_heads) * m.head_size);
  l.product_backward("matmul/down", F, D, fused_swiglu ? 3 * F : 0);
  if (!fused_swiglu) l.elementwise("swiglu", 5.0 * double(F));
  l.product_backward("matmul/gate_up", D, 2 * F);
  l.elementwise("rms_norm/ffn", 4.0 * double(D));
  l.product_backward("matmul/output", Q, D);
  l.attention_backward();
  l.elementwise("rope", 2.0 * rotated);
  if (m.qk_norm) l.elementwise("rms_norm/qk", 3.0 * rotated);
  l.product_backward("matmul/qkv", D, W);
  l.elementwise("rms_norm/attention", 4.0 * double(D));
}

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::recompute:
      return "recompute";
    case Phase::optimizer:
      break;
  }
  return "optimizer";
}

std::vector<OpCost> step_ledger(const ModelConfig& m, const ExecutionConfig& e, const LedgerOptions& options) {
  const std::int64_t D = m.dim, V = m.vocab, L = m.layers, n = options.micro_batches;
  const Kept nothing{false, false, false, false, false, false};
  Ledger l(m, e);
  l.repeat(Phase::forward, n);
  // A token's id and position, and a group if it is the only one of its word.
  if (e.training) l.add("embedding_group", 0, 24.0 * double(e.batch * e.sequence));
  l.elementwise("embedding", 2.0 * double(D));
  l.repeat(Phase::forward, n * L);
  add_block_forward(l, m, e.fused_swiglu_forward, nothing);
  l.product("matmul/down", m.ffn, D, D);
  l.repeat(Phase::forward, n);
  l.elementwise("rms_norm/final", 2.0 * double(D), 4.0 * double(D));
  if (!e.training) {
    l.product("linear_cross_entropy", D, V);
    return l.take();
  }
  l.repeat(Phase::backward, n);
  l.head_backward(D, V);
  l.elementwise("rms_norm/final", 3.0 * double(D));
  l.elementwise("embedding", 3.0 * double(D));
  l.repeat(Phase::backward, n * L);
  add_block_backward(l, m, e.fused_swiglu_backward);
  // The last block's backward pass follows its forward pass, so nothing of it is computed again.
  const std::int64_t heavy = e.recompute_blocks == 0 ? L - 1 : std::min(e.recompute_blocks, L - 1);
  l.repeat(Phase::recompute, n * heavy);
  add_block_forward(l, m, e.fused_swiglu_forward, kept(policy(e, 0)));
  l.repeat(Phase::recompute, n * (L - 1 - heavy));
  add_block_forward(l, m, e.fused_swiglu_forward, kept(policy(e, L - 1)));

  l.repeat(Phase::optimizer, 1);
  const double per_parameter =
      2.0 * double(size_of(e.storage)) + double(size_of(e.gradients)) + options.optimizer_bytes_per_parameter;
  const double parameters = double(parameter_layout(m).count);
  l.add("norm", 2.0 * parameters, parameters * double(size_of(e.gradients)));
  l.add("optimizer", 0, parameters * per_parameter);
  return l.take();
}

namespace {

template <class Value>
FlopTotals sum_by_phase(const std::vector<OpCost>& ledger, Value value) {
  FlopTotals t;
  for (const OpCost& op : ledger) {
    double& into = op.phase == Phase::forward     ? t.forward
                   : op.phase == Phase::backward  ? t.backward
                   : op.phase == Phase::recompute ? t.recompute
                                                  : t.optimizer;
    into += value(op);
  }
  return t;
}

}  // namespace

FlopTotals total_flops(const std::vector<OpCost>& ledger) {
  return sum_by_phase(ledger, [](const OpCost& op) { return op.flops; });
}
FlopTotals total_bytes(const std::vector<OpCost>& ledger) {
  return sum_by_phase(ledger, [](const OpCost& op) { return op.bytes; });
}

std::int64_t product_parameters(const ModelConfig& m) {
  std::int64_t n = 0;
  const ParameterLayout layout = parameter_layout(m);
  for (const ParameterInfo& p : layout.parameters)
    if (p.shape.size() == 2) n += p.size;
  return n - layout.embedding_count;
}

ModelFlops model_flops_per_token(const ModelConfig& m, std::int64_t sequence) {
  const double P = double(product_parameters(m)), all = double(parameter_layout(m).count);
  const double scores = double(m.layers) * double(m.heads * m.head_size) * double(sequence);
  return {6 * P + 6 * scores, 6 * P + 12 * scores, 6 * all + 12 * scores};
}

}  // namespace mylos::model
