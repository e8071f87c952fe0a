// The dense Llama-3 decoder: x = embed(tokens); L times { x += attention(norm(x)); x += ffn(norm(x)) };
// loss(head(norm(x))).
//
// All memory is laid out in the constructor, from the arena, in categories "weights", "gradients", "activations",
// "workspace": constructing on a measuring Arena is the memory plan. A step allocates nothing. docs/step.md walks
// through a step.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/attention/documents.hpp"
#include "model/config.hpp"
#include "model/parameters.hpp"
#include "tensor/arena.hpp"

namespace mylos::model {

// One micro-batch on the device, [B, S] i32 each. A label below zero is ignored. documents: see
// kernels/attention/documents.hpp; none means one document a sequence. Positions restart at documents.
struct Batch {
  Tensor tokens, labels, positions;
  kernels::AttentionDocuments documents;
};

class Transformer {
 public:
  Transformer(const ModelConfig& config, const ExecutionConfig& execution, Arena& arena);
  ~Transformer();
  Transformer(Transformer&&) noexcept;

  const ModelConfig& config() const;
  const ExecutionConfig& execution() const;
  const ParameterLayout& layout() const;
  Tensor weights() const;    // flat [total], storage dtype
  Tensor gradients() const;  // flat [total], gradients dtype (none when not training)

  // Philox initialisation: element values depend on (seed, parameter, element) alone.
  void initialize(const Stream& stream, std::uint64_t seed);

  // row_loss [B] (f64, device): the sum over a sequence's valid tokens of the cross entropy (nats).
  // Gradients of grad_scale[0] · all of them together are added to gradients(), or overwrite it when `first`. grad_scale [1] f32 lies
  // on the device, so that recorded work (tensor/async.hpp) can be replayed with another value.
  void forward_backward(const Stream& stream, const Batch& batch, const Tensor& grad_scale, bool first,
                        const Tensor& row_loss);
  // The same loss without gradients.
  void evaluate(const Stream& stream, const Batch& batch, const Tensor& row_loss);
  // logits [B, V] f32 of position `position[b]` (i32 on the device, [B]) of each sequence; for generation.
  void logits_at(const Stream& stream, const Batch& batch, const Tensor& position, const Tensor& logits);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mylos::model
