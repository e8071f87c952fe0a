#include "optimizer/sgd.hpp"

#include "kernels/sgd/sgd.hpp"
#include "tensor/region.hpp"

namespace mylos::optimizer {

Sgd::Sgd(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed, Arena& arena)
    : Optimizer(config, parameters, storage, seed, arena), m_(take(config.moments, size(), arena)) {}

void Sgd::start(const Stream& stream, const Tensor&) { fill_zero(stream, m_); }

void Sgd::rule(const Update& u) {
  const Region region(u.stream, "optimizer", "optimizer");
  each_part(u, shard(), [&](const kernels::FlatStep& step, const kernels::FlatOperands& o, const FlatRange& r) {
    kernels::sgd(u.stream, {.flat = step, .momentum = float(config_.momentum), .nesterov = config_.nesterov}, o,
                 window(m_, shard().begin, r));
  });
}

void Sgd::list(std::vector<State>& states) const { states.push_back({"momentum", m_, {shard()}}); }

}  // namespace mylos::optimizer
