#include "kernels/sgd/sgd.hpp"

#include "kernels/sgd/sgd_device.hpp"

namespace mylos::kernels {

void sgd(const Stream& stream, const SgdStep& step, const FlatOperands& operands, const Tensor& m) {
  detail::expect_flat_step("sgd", step.flat, operands);
  detail::expect_decay("sgd", "momentum", step.momentum);
  detail::expect_state("sgd", "m", m, operands.p);
  device::sgd(stream, step, operands, m);
}

}  // namespace mylos::kernels
