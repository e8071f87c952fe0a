#include "optimizer/schedule_free.hpp"

#include "kernels/elementwise/elementwise.hpp"
#include "kernels/schedule_free/schedule_free.hpp"
#include "tensor/region.hpp"

namespace mylos::optimizer {

ScheduleFree::ScheduleFree(const OptimizerConfig& config, const Parameters& parameters, DType storage,
                           std::uint64_t seed, Arena& arena)
    : Optimizer(config, parameters, storage, seed, arena),
      z_(take(low_ ? DType::f32 : storage, size(), arena)),
      v_(take(config.moments, size(), arena)),
      squared_rates_(take(DType::f64, 1, arena)),
      average_(take(DType::f32, 1, arena)) {}

void ScheduleFree::start(const Stream& stream, const Tensor& weights) {
  kernels::convert(stream, weights, z_);
  fill_zero(stream, v_);
  fill_zero(stream, squared_rates_);
  fill_zero(stream, average_);
}

void ScheduleFree::rule(const Update& u) {
  const Region region(u.stream, "optimizer", "optimizer");
  kernels::ScheduleFreeStep step{
      .flat = u.flat, .beta1 = config_.beta1, .beta2 = config_.beta2, .eps = float(config_.eps)};
  kernels::schedule_free_average(u.stream, step, u.scale, squared_rates_, average_);
  each_part(u, shard(), [&](const kernels::FlatStep& flat, const kernels::FlatOperands& o, const FlatRange& r) {
    step.flat = flat;
    kernels::schedule_free(u.stream, step, o, average_, window(z_, shard().begin, r), window(v_, shard().begin, r));
  });
}

void ScheduleFree::show_average(const Stream& stream, const Tensor& weights, const Tensor& spare) {
  copy(stream, weights, kept(weights, spare));
  kernels::schedule_free_weights(stream, config_.beta1, weights, low_, z_, weights);
}

void ScheduleFree::list(std::vector<State>& states) const {
  states.push_back({"z", z_, {shard()}});
  states.push_back({"moment2", v_, {shard()}});
  states.push_back({"squared_rates", squared_rates_, {}});
}

}  // namespace mylos::optimizer
