#include "kernels/muon/muon.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"
#include "kernels/muon/muon_device.hpp"

namespace mylos::kernels {

void muon_momentum(const Stream& stream, const MuonStep& step, const FlatOperands& operands, const Tensor& m,
                   const Tensor& u) {
  detail::expect_flat_step("muon_momentum", step.flat, operands);
  detail::expect_decay("muon_momentum", "momentum", step.momentum);
  detail::expect_state("muon_momentum", "m", m, operands.p);
  detail::expect_state("muon_momentum", "u", u, operands.p);
  device::muon_momentum(stream, step, operands, m, u);
}

void muon_apply(const Stream& stream, const FlatStep& step, const FlatOperands& operands, float factor) {
  detail::expect_flat_step("muon_apply", step, operands);
  check(std::isfinite(factor), "muon_apply: the factor of the direction is {}; it must be finite", factor);
  device::muon_apply(stream, step, operands, factor);
}

}  // namespace mylos::kernels
