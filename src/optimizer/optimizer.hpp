// An optimizer on the flat buffers of a model, with global-norm clipping. docs/optimizers.md has the rules.
//
//   auto o = make_optimizer(config, parameters, storage, seed, arena);   // adamw.hpp, lion.hpp, ...
//   o->initialize(stream, weights);
//   o->update(stream, step, learning_rate, weights, gradients);
//
// State is laid out from the arena, category "optimizer"; with bf16 weights and Master::exact that includes the lower 16 bits of the fp32
// weights. Everything is queued on the stream and nothing waits for the device: the norm and the clip factor stay there. A norm that
// is not finite leaves weights and state as they were, and so do all updates after it until initialize(): a step may be queued
// before the host hears of the last one.
// Sharding: weights and gradients are the shard's window of the flat buffers, [end - begin]. An update on shards gives the same bits as one
// on the whole if squares() are added up between measure() and apply().
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/optimizer/flat_step.hpp"
#include "optimizer/config.hpp"
#include "optimizer/parameters.hpp"
#include "tensor/arena.hpp"

namespace mylos::optimizer {

// A tensor that a checkpoint holds beside the weights.
struct State {
  std::string name;               // "moment1", "momentum", ...
  Tensor tensor;                  // dense
  std::vector<FlatRange> covers;  // the flat elements it has one value of, in order; empty: it belongs to no parameter
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // State as before the first step; the weights as they are become the exact master weights.
  void initialize(const Stream& stream, const Tensor& weights);
  // measure() and apply(). step counts from 0. Gradients are read only; they are clipped on the fly.
  void update(const Stream& stream, std::int64_t step, double learning_rate, const Tensor& weights,
              const Tensor& gradients);
  void measure(const Stream& stream, const Tensor& gradients);
  void apply(const Stream& stream, std::int64_t step, double learning_rate, const Tensor& weights,
             const Tensor& gradients);
  // [1] f64 on the device after measure(): the sum of squares of this shard's gradients.
  const Tensor& squares() const { return squares_; }
  // [2] f32 on the device after apply(): the global norm of the gradients before clipping, and the factor they were scaled by (NaN
  // when the norm was not finite).
  const Tensor& norm_and_scale() const { return norm_and_scale_; }

  // What a checkpoint holds; valid while the weights are those of training.
  std::vector<State> states() const;
  // One of them; throws Error when there is none of this name.
  Tensor state(const std::string& name) const;

  // Whether work that repeats may be recorded once and replayed (train.graphs); an observer of the ops wants false.
  void use_graphs(bool use) { graphs_ = use; }

  // Whether the weights to evaluate and to save are others than those that training works on.
  virtual bool averages() const { return false; }
  // The weights become those to evaluate; `spare`, at least as many bytes, keeps those of training as they are, so that
  // show_training() brings back the same bits, and leaves `spare` zero. Nothing but an evaluation may happen between them.
  virtual void show_average(const Stream&, const Tensor& weights, const Tensor& spare);
  void show_training(const Stream& stream, const Tensor& weights, const Tensor& spare);

 protected:
  Optimizer(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed,
            Arena& arena);

  // One queued update, by flat ranges.
  struct Update {
    const Stream& stream;
    kernels::FlatStep flat;
    Tensor weights, gradients, scale;
  };
  virtual void start(const Stream& stream, const Tensor& weights) = 0;
  virtual void rule(const Update& update) = 0;
  virtual void list(std::vector<State>& states) const = 0;

  std::int64_t size() const { return parameters_.shard.size(); }
  FlatRange shard() const { return parameters_.shard; }
  // What `range` and the shard have in common.
  FlatRange own(const FlatRange& range) const;
  Tensor take(DType dtype, std::int64_t elements, Arena& arena) const;
  // The elements [range) of a tensor that begins with flat element `origin`; none stays none.
  static Tensor window(const Tensor& t, std::int64_t origin, const FlatRange& range);
  // The bytes of `spare` that keep the weights.
  static Tensor kept(const Tensor& weights, const Tensor& spare);
  // f(FlatStep, FlatOperands, range) for the parts of `range` with and without weight decay.
  template <class F>
  void each_part(const Update& u, const FlatRange& range, const F& f) const {
    for (const bool decays : {true, false}) {
      const FlatRange whole =
          decays ? FlatRange{0, parameters_.decay_end} : FlatRange{parameters_.decay_end, parameters_.total};
      const FlatRange part{std::max(whole.begin, range.begin), std::min(whole.end, range.end)};
      if (part.begin >= part.end) continue;
      kernels::FlatStep step = u.flat;
      step.weight_decay = decays ? float(config_.weight_decay) : 0.0f;
      step.first_index = std::uint64_t(part.begin);
      f(step,
        kernels::FlatOperands{window(u.gradients, shard().begin, part), u.scale, window(u.weights, shard().begin, part),
                              window(low_, shard().begin, part)},
        part);
    }
  }

  OptimizerConfig config_;  // resolved
  Parameters parameters_;
  DType storage_;
  std::uint64_t seed_;
  Tensor low_;
  bool graphs_ = true;

 private:
  Tensor squares_, norm_and_scale_, workspace_;
};

}  // namespace mylos::optimizer
