#include "kernels/schedule_free/schedule_free.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"
#include "kernels/schedule_free/schedule_free_device.hpp"

namespace mylos::kernels {
namespace {

constexpr const char* kOp = "schedule_free";

void expect_beta1(double beta1) {
  check(beta1 > 0.0 && beta1 < 1.0,
        "{}: beta1 is {}; it must be above 0, since x = (y - (1-beta1)·z) / beta1, and below 1", kOp, beta1);
}

float gamma_of(const ScheduleFreeStep& s) {
  detail::expect_decay(kOp, "beta2", s.beta2);
  return float(double(s.flat.learning_rate) * std::sqrt(1.0 - std::pow(s.beta2, double(s.flat.step))));
}

void expect_z(const Tensor& p, const Tensor& low, const Tensor& z) {
  detail::expect_state(kOp, "z", z, p);
  const DType wanted = low ? DType::f32 : p.dtype();
  check(z.dtype() == wanted, "{}: z is {}, expected {}: as exact as p {}{}", kOp, z.describe(), name_of(wanted),
        p.describe(), low ? " with low" : "");
}

}  // namespace

void schedule_free_average(const Stream& stream, const ScheduleFreeStep& step, const Tensor& scale, const Tensor& sum,
                           const Tensor& average) {
  if (scale) expect(kOp, "scale", scale, DType::f32, {1});
  expect(kOp, "sum", sum, DType::f64, {1});
  expect(kOp, "average", average, DType::f32, {1});
  device::schedule_free_average(stream, gamma_of(step), scale, sum, average);
}

void schedule_free(const Stream& stream, const ScheduleFreeStep& step, const FlatOperands& operands,
                   const Tensor& average, const Tensor& z, const Tensor& v) {
  detail::expect_flat_step(kOp, step.flat, operands);
  expect_beta1(step.beta1);
  check(std::isfinite(step.eps) && step.eps >= 0.0f, "{}: eps is {}; it must be finite and at least 0", kOp, step.eps);
  expect(kOp, "average", average, DType::f32, {1});
  expect_z(operands.p, operands.low, z);
  detail::expect_state(kOp, "v", v, operands.p);
  device::schedule_free(stream, step, gamma_of(step), operands, average, z, v);
}

void schedule_free_weights(const Stream& stream, double beta1, const Tensor& p, const Tensor& low, const Tensor& z,
                           const Tensor& x) {
  expect_beta1(beta1);
  expect_float(kOp, "p", p);
  expect_dense(kOp, "p", p);
  if (low) expect(kOp, "low", low, DType::u16, {p.size()});
  check(!low || p.dtype() == DType::bf16, "{}: low beside p {}; u16 low belongs to bf16 p", kOp, p.describe());
  expect_z(p, low, z);
  detail::expect_state(kOp, "x", x, p);
  check(x.dtype() == p.dtype(), "{}: x is {}, expected the dtype of p {}", kOp, x.describe(), p.describe());
  device::schedule_free_weights(stream, beta1, p, low, z, x);
}

}  // namespace mylos::kernels
