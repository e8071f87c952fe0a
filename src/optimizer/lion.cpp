#include "optimizer/lion.hpp"

#include "kernels/lion/lion.hpp"
#include "tensor/region.hpp"

namespace mylos::optimizer {

Lion::Lion(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed, Arena& arena)
    : Optimizer(config, parameters, storage, seed, arena), m_(take(config.moments, size(), arena)) {}

void Lion::start(const Stream& stream, const Tensor&) { fill_zero(stream, m_); }

void Lion::rule(const Update& u) {
  const Region region(u.stream, "optimizer", "optimizer");
  each_part(u, shard(), [&](const kernels::FlatStep& step, const kernels::FlatOperands& o, const FlatRange& r) {
    kernels::lion(u.stream, {.flat = step, .beta1 = config_.beta1, .beta2 = config_.beta2}, o,
                  window(m_, shard().begin, r));
  });
}

void Lion::list(std::vector<State>& states) const { states.push_back({"momentum", m_, {shard()}}); }

}  // namespace mylos::optimizer
