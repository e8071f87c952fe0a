#include "kernels/swiglu/swiglu.hpp"

#include "kernels/detail/checks.hpp"
#include "kernels/swiglu/swiglu_device.hpp"

namespace mylos::kernels {
namespace {

void expect_halves(const char* op, const char* name, const Tensor& t, const Tensor& half) {
  expect_dense(op, name, t);
  expect(op, name, t, half.dtype(), {half.extent(0), 2 * half.extent(1)});
}

}  // namespace

void swiglu_forward(const Stream& stream, const Tensor& gate_up, const Tensor& out) {
  expect_float("swiglu_forward", "out", out);
  expect_shape("swiglu_forward", "out", out, {-1, -1});
  expect_dense("swiglu_forward", "out", out);
  expect_halves("swiglu_forward", "gate_up", gate_up, out);
  device::swiglu_forward(stream, gate_up, out);
}

void swiglu_backward(const Stream& stream, const Tensor& gate_up, const Tensor& dout, const Tensor& dgate_up) {
  expect_float("swiglu_backward", "dout", dout);
  expect_shape("swiglu_backward", "dout", dout, {-1, -1});
  expect_dense("swiglu_backward", "dout", dout);
  expect_halves("swiglu_backward", "gate_up", gate_up, dout);
  expect_halves("swiglu_backward", "dgate_up", dgate_up, dout);
  device::swiglu_backward(stream, gate_up, dout, dgate_up);
}

}  // namespace mylos::kernels
