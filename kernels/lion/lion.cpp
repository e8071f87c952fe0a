#include "kernels/lion/lion.hpp"

#include "kernels/lion/lion_device.hpp"

namespace mylos::kernels {

void lion(const Stream& stream, const LionStep& step, const FlatOperands& operands, const Tensor& m) {
  detail::expect_flat_step("lion", step.flat, operands);
  detail::expect_decay("lion", "beta1", step.beta1);
  detail::expect_decay("lion", "beta2", step.beta2);
  detail::expect_state("lion", "m", m, operands.p);
  device::lion(stream, step, operands, m);
}

}  // namespace mylos::kernels
