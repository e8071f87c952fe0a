#include "model/transformer.hpp"

#include <optional>

#include "base/error.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/linear_cross_entropy/linear_cross_entropy.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/random/random.hpp"
#include "kernels/rms_norm/rms_norm.hpp"
#include "kernels/rope/rope.hpp"
#include "model/block.hpp"
#include "tensor/async.hpp"
#include "tensor/region.hpp"

namespace mylos::model {
namespace {

// What depends on the tokens alone is queued beside the forward pass.
struct Beside {
  Stream stream;
  Event begin, end;
};

void check_execution(const ModelConfig& model, const ExecutionConfig& e) {
  check(e.batch >= 1, "batch is {}; a micro-batch has at least 1 sequence", e.batch);
  check(e.recompute_blocks >= 0 && e.recompute_blocks <= model.layers,
        "recompute_blocks is {}; it must be between 0 (all) and the model's {} layers", e.recompute_blocks,
        model.layers);
  check(e.sequence >= 1 && e.sequence <= model.max_seq_len,
        "sequence is {}; it must be between 1 and model.max_seq_len ({})", e.sequence, model.max_seq_len);
  for (const DType d : {e.storage, e.gradients})
    check(d == DType::f32 || d == DType::bf16, "weights, activations and gradients are f32 or bf16, not {}",
          name_of(d));
  // Token positions and head rows are 32-bit; element offsets are not.
  check(e.batch <= INT32_MAX / e.sequence, "a micro-batch of {} x {} tokens is too large; at most {} tokens", e.batch,
        e.sequence, INT32_MAX);
}

}  // namespace

struct Transformer::Impl {
  ModelConfig model;
  ExecutionConfig execution;
  ParameterLayout layout;
  Tensor weights, gradients;
  Parameters w, g;
  Buffers buffers;
  mutable std::optional<Beside> beside;  // where a model is trained

  Impl(const ModelConfig& model_, const ExecutionConfig& execution_, Arena& arena)
      : model(resolve(model_)), execution(execution_), layout(parameter_layout(model)) {
    check_execution(model, execution);
    weights = arena.take(execution.storage, {layout.total}, "weights");
    w = parameter_windows(model, layout, weights);
    if (execution.training) {
      gradients = arena.take(execution.gradients, {layout.total}, "gradients");
      g = parameter_windows(model, layout, gradients);
    }
    buffers = lay_out(model, execution, arena);
    if (arena.measuring()) return;
    check((!execution.fused_swiglu_forward && !execution.fused_swiglu_backward) ||
              kernels::has_fused_swiglu(execution.storage, model.dim, model.ffn),
          "SwiGLU in the end of a product needs a build with CUDA for Hopper, such a device, bf16 (here {}), and "
          "dim ({}) and ffn ({}) that are multiples of 8; say train.swiglu = \"apart\"",
          name_of(execution.storage), model.dim, model.ffn);
    if (execution.training) beside.emplace();
    const Stream stream;
    // The gaps between parameters take part in norms and optimizer updates of the whole buffer, so they must be zero.
    fill_zero(stream, weights);
    if (execution.training) fill_zero(stream, gradients);
    kernels::rope_table(stream, model.rope_theta, buffers.rope_table);
    stream.fence();
  }

  std::int64_t tokens() const { return execution.batch * execution.sequence; }

  // The batch with B and S folded into T.
  Batch flatten(const Batch& batch, bool with_labels) const {
    const std::int64_t B = execution.batch, S = execution.sequence, T = B * S;
    expect("transformer", "tokens", batch.tokens, DType::i32, {B, S});
    expect("transformer", "positions", batch.positions, DType::i32, {B, S});
    if (batch.documents) expect("transformer", "document_start", batch.documents.start, DType::i32, {B, S});
    if (with_labels) expect("transformer", "labels", batch.labels, DType::i32, {B, S});
    return {batch.tokens.reshape({T}), with_labels ? batch.labels.reshape({T}) : Tensor(), batch.positions.reshape({T}),
            batch.documents};
  }

  BlockContext context(const Stream& stream, const Batch& flat) const {
    return {stream, model, execution, buffers, flat};
  }

  // Into buffers.token_groups, which backward() waits for; inside a recording a branch of the graph.
  void group_tokens(const Stream& stream, const Batch& flat) const {
    beside->begin.record(stream);
    wait_for(beside->stream, beside->begin);
    {
      const Region region(beside->stream, "forward", "embedding_group");
      kernels::embedding_group(beside->stream, flat.tokens, model.vocab, buffers.token_groups);
    }
    beside->end.record(beside->stream);
  }

  // Leaves the final norm's output in buffers.stream_gradient.
  void forward(const Stream& stream, const Batch& flat) const {
    const BlockContext c = context(stream, flat);
    const std::vector<BlockBuffers>& blocks = buffers.blocks;
    {
      const Region region(stream, "forward", "embedding");
      kernels::embedding_forward(stream, w.embedding, flat.tokens, blocks.front().x);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i)
      block_forward(c, w.blocks[i], blocks[i], i + 1 < blocks.size() ? blocks[i + 1].x : buffers.x_final);
    const Region region(stream, "forward", "rms_norm/final");
    kernels::rms_norm_forward(stream, buffers.x_final, w.norm, float(model.norm_eps), buffers.stream_gradient,
                              buffers.rstd_final);
  }

  void backward(const Stream& stream, const Batch& flat, const Tensor& grad_scale, bool first) const {
    const bool accumulate = !first;
    const Tensor& dx = buffers.stream_gradient;
    {
      const Region region(stream, "backward", "linear_cross_entropy");
      // A tied table gets the head's part first (overwritten or added), the lookup's part is added last.
      kernels::linear_cross_entropy_backward(stream, dx, w.head, flat.labels, grad_scale, accumulate,
                                             buffers.head_chunk, buffers.head, buffers.loss, dx, g.head);
    }
    {
      const Region region(stream, "backward", "rms_norm/final");
      kernels::rms_norm_backward(stream, dx, buffers.x_final, w.norm, buffers.rstd_final, Tensor(), accumulate,
                                 buffers.norm, dx, g.norm);
    }
    const BlockContext c = context(stream, flat);
    for (std::size_t i = buffers.blocks.size(); i-- > 0;) {
      // What the last block computed is still in the shared buffers.
      if (i + 1 < buffers.blocks.size())
        block_recompute(c, w.blocks[i], buffers.blocks[i], kept(policy(execution, std::int64_t(i))));
      block_backward(c, w.blocks[i], buffers.blocks[i], accumulate, g.blocks[i]);
    }
    wait_for(stream, beside->end);
    const Region region(stream, "backward", "embedding");
    if (first && !model.tied_head) fill_zero(stream, g.embedding);
    kernels::embedding_backward(stream, buffers.token_groups, dx, buffers.embedding, g.embedding);
  }

  void sum_loss(const Stream& stream, const Tensor& row_loss) const {
    kernels::sum_rows(stream, buffers.loss.reshape({execution.batch, execution.sequence}), row_loss);
  }
};

Transformer::Transformer(const ModelConfig& config, const ExecutionConfig& execution, Arena& arena)
    : impl_(std::make_unique<Impl>(config, execution, arena)) {}
Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;

const ModelConfig& Transformer::config() const { return impl_->model; }
const ExecutionConfig& Transformer::execution() const { return impl_->execution; }
const ParameterLayout& Transformer::layout() const { return impl_->layout; }
Tensor Transformer::weights() const { return impl_->weights; }
Tensor Transformer::gradients() const { return impl_->gradients; }

void Transformer::initialize(const Stream& stream, std::uint64_t seed) {
  const ParameterLayout& layout = impl_->layout;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const ParameterInfo& info = layout.parameters[i];
    const Tensor t = layout.window(impl_->weights, info);
    // Each parameter has 2^40 random numbers of its own, so its values do not depend on the sizes of those before it.
    if (info.init_std > 0)
      kernels::random_normal(stream, seed, std::uint64_t(i) << 40, float(info.init_std), t.reshape({info.size}));
    else
      kernels::fill(stream, 1.0, t);
  }
}

void Transformer::forward_backward(const Stream& stream, const Batch& batch, const Tensor& grad_scale, bool first,
                                   const Tensor& row_loss) {
  check(impl_->execution.training,
        "forward_backward() on a model that was laid out without training; set execution.training");
  const Batch flat = impl_->flatten(batch, true);
  impl_->group_tokens(stream, flat);
  impl_->forward(stream, flat);
  impl_->backward(stream, flat, grad_scale, first);
  impl_->sum_loss(stream, row_loss);
}

void Transformer::evaluate(const Stream& stream, const Batch& batch, const Tensor& row_loss) {
  const Batch flat = impl_->flatten(batch, true);
  const Buffers& s = impl_->buffers;
  impl_->forward(stream, flat);
  {
    const Region region(stream, "forward", "linear_cross_entropy");
    kernels::linear_cross_entropy_forward(stream, s.stream_gradient, impl_->w.head, flat.labels, s.head_chunk, s.head,
                                          s.loss);
  }
  impl_->sum_loss(stream, row_loss);
}

void Transformer::logits_at(const Stream& stream, const Batch& batch, const Tensor& position, const Tensor& logits) {
  const std::int64_t B = impl_->execution.batch, S = impl_->execution.sequence, D = impl_->model.dim;
  expect("logits_at", "position", position, DType::i32, {B});
  expect("logits_at", "logits", logits, DType::f32, {B, impl_->model.vocab});
  const Batch flat = impl_->flatten(batch, false);
  const Buffers& s = impl_->buffers;
  impl_->forward(stream, flat);
  // A lookup in the table of the sequence's own hidden states.
  const Tensor hidden = s.stream_gradient.reshape({B, S, D});
  for (std::int64_t b = 0; b < B; ++b)
    kernels::embedding_forward(stream, hidden.slice(0, b, b + 1).reshape({S, D}), position.slice(0, b, b + 1),
                               s.selected.slice(0, b, b + 1));
  kernels::linear_forward(stream, s.selected, impl_->w.head, s.matmul, logits);
}

}  // namespace mylos::model
