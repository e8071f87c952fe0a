#include "optimizer/optimizer.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "kernels/norm/norm.hpp"
#include "tensor/region.hpp"

namespace mylos::optimizer {
namespace {
constexpr const char* kCategory = "optimizer";
}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed,
                     Arena& arena)
    : config_(resolve(config)), parameters_(parameters), storage_(storage), seed_(seed) {
  Parameters& p = parameters_;
  check(p.total > 0 && p.decay_end >= 0 && p.decay_end <= p.total,
        "the range with weight decay ends at {} of {} elements", p.decay_end, p.total);
  if (p.shard.size() == 0) p.shard = {0, p.total};
  check(p.shard.begin >= 0 && p.shard.begin < p.shard.end && p.shard.end <= p.total,
        "a shard of elements {} to {} of {}; it must lie in them", p.shard.begin, p.shard.end, p.total);
  check(storage == DType::f32 || storage == DType::bf16, "weights are {}; an optimizer takes f32 or bf16",
        name_of(storage));
  if (storage == DType::bf16 && config_.master == Master::exact) low_ = take(DType::u16, size(), arena);
  squares_ = take(DType::f64, 1, arena);
  norm_and_scale_ = take(DType::f32, 2, arena);
  workspace_ = take(DType::u8, kernels::sum_workspace(), arena);
}

Tensor Optimizer::take(DType dtype, std::int64_t elements, Arena& arena) const {
  return elements > 0 ? arena.take(dtype, {elements}, kCategory) : Tensor{};
}

FlatRange Optimizer::own(const FlatRange& r) const {
  const FlatRange both{std::max(r.begin, shard().begin), std::min(r.end, shard().end)};
  return both.begin < both.end ? both : FlatRange{};
}

Tensor Optimizer::window(const Tensor& t, std::int64_t origin, const FlatRange& range) {
  return t ? t.slice(0, range.begin - origin, range.end - origin) : t;
}

Tensor Optimizer::kept(const Tensor& weights, const Tensor& spare) {
  check(spare.is_dense() && spare.bytes() >= weights.bytes(), "{} has no room for the weights {}", spare.describe(),
        weights.describe());
  return Tensor(spare.data(), weights.dtype(), weights.shape());
}

void Optimizer::initialize(const Stream& stream, const Tensor& weights) {
  expect("optimizer", "weights", weights, storage_, {size()});
  if (low_) fill_zero(stream, low_);  // the master is the bf16 weight itself: its lower bits are zero
  fill_zero(stream, norm_and_scale_);
  start(stream, weights);
}

void Optimizer::measure(const Stream& stream, const Tensor& gradients) {
  expect_shape("optimizer", "gradients", gradients, {size()});
  const Region region(stream, "optimizer", "norm");
  kernels::sum_of_squares(stream, gradients, workspace_, squares_);
}

void Optimizer::apply(const Stream& stream, std::int64_t step, double learning_rate, const Tensor& weights,
                      const Tensor& gradients) {
  expect("optimizer", "weights", weights, storage_, {size()});
  expect_shape("optimizer", "gradients", gradients, {size()});
  kernels::clip_scale(stream, squares_, float(config_.max_grad_norm), norm_and_scale_);
  rule({stream,
        {.learning_rate = float(learning_rate), .step = step + 1, .seed = seed_},
        weights,
        gradients,
        norm_and_scale_.slice(0, 1, 2)});
}

void Optimizer::update(const Stream& stream, std::int64_t step, double learning_rate, const Tensor& weights,
                       const Tensor& gradients) {
  measure(stream, gradients);
  apply(stream, step, learning_rate, weights, gradients);
}

std::vector<State> Optimizer::states() const {
  std::vector<State> all;
  if (low_) all.push_back({"low", low_, {shard()}});
  list(all);
  return all;
}

Tensor Optimizer::state(const std::string& name) const {
  std::vector<std::string> known;
  for (const State& s : states()) {
    if (s.name == name) return s.tensor;
    known.push_back(s.name);
  }
  fail("the optimizer has no state '{}'; it has {}", name, join(known, ", "));
}

void Optimizer::show_average(const Stream&, const Tensor&, const Tensor&) {
  fail("this optimizer evaluates the weights it trains; ask averages() first");
}

void Optimizer::show_training(const Stream& stream, const Tensor& weights, const Tensor& spare) {
  check(averages(), "this optimizer evaluates the weights it trains; ask averages() first");
  copy(stream, kept(weights, spare), weights);
  // Gradients have gaps between parameters that no op writes: their zeros must be there for the next norm.
  fill_zero(stream, spare);
}

}  // namespace mylos::optimizer
