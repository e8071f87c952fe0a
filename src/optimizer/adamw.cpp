#include "optimizer/adamw.hpp"

#include "tensor/region.hpp"

namespace mylos::optimizer {

kernels::AdamWStep adamw_step(const kernels::FlatStep& flat, const OptimizerConfig& config) {
  return {.learning_rate = flat.learning_rate,
          .beta1 = float(config.beta1),
          .beta2 = float(config.beta2),
          .eps = float(config.eps),
          .weight_decay = flat.weight_decay,
          .step = flat.step,
          .seed = flat.seed,
          .first_index = flat.first_index};
}

AdamW::AdamW(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed,
             Arena& arena)
    : Optimizer(config, parameters, storage, seed, arena),
      m_(take(config.moments, size(), arena)),
      v_(take(config.moments, size(), arena)) {}

void AdamW::start(const Stream& stream, const Tensor&) {
  fill_zero(stream, m_);
  fill_zero(stream, v_);
}

void AdamW::rule(const Update& u) {
  const Region region(u.stream, "optimizer", "optimizer");
  each_part(u, shard(), [&](const kernels::FlatStep& step, const kernels::FlatOperands& o, const FlatRange& r) {
    kernels::adamw(u.stream, adamw_step(step, config_), o.g, o.scale, o.p, o.low, window(m_, shard().begin, r),
                   window(v_, shard().begin, r));
  });
}

void AdamW::list(std::vector<State>& states) const {
  states.push_back({"moment1", m_, {shard()}});
  states.push_back({"moment2", v_, {shard()}});
}

}  // namespace mylos::optimizer
