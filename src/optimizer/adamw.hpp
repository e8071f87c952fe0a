// AdamW with global-norm clipping on the flat buffers of a model: [0, decay_end) decays, [decay_end, total) does not.
//
// State is laid out from the arena, category "optimizer": m and v [total], with bf16 weights and Master::exact the lower 16 bits of the
// fp32 weights [total], and a few bytes for the norm. update() queues everything on the stream and never waits for the device:
// the norm and the clip factor stay there. A norm that is not finite leaves weights and state as they were,
// and so do all updates after it until initialize(): a step may be queued before the host hears of the last one.
#pragma once

#include <cstdint>

#include "optimizer/config.hpp"
#include "tensor/arena.hpp"

namespace mylos::optimizer {

struct FlatRange {
  std::int64_t decay_end = 0;
  std::int64_t total = 0;
};

// Bytes of state that one update reads and writes for each parameter, weights and gradients not counted.
double state_bytes_moved(const OptimizerConfig& config, DType storage);

class AdamW {
 public:
  AdamW(const OptimizerConfig& config, const FlatRange& range, DType storage, std::uint64_t seed, Arena& arena);

  // Zero moments; the weights as they are become the exact master weights.
  void initialize(const Stream& stream);
  // step counts from 0. Gradients are read only; they are clipped on the fly.
  void update(const Stream& stream, std::int64_t step, double learning_rate, const Tensor& weights,
              const Tensor& gradients);

  // [2] f32 on the device after update(): the global norm of the gradients before clipping, and the factor they were scaled by (NaN
  // when the norm was not finite).
  const Tensor& norm_and_scale() const { return norm_and_scale_; }
  // What a checkpoint holds; low is none without exact master weights.
  const Tensor& moment1() const { return m_; }
  const Tensor& moment2() const { return v_; }
  const Tensor& low() const { return low_; }

 private:
  OptimizerConfig config_;
  FlatRange range_;
  DType storage_;
  std::uint64_t seed_;
  Tensor m_, v_, low_, squares_, norm_and_scale_, workspace_;
};

}  // namespace mylos::optimizer
