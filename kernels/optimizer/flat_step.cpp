#include "kernels/optimizer/flat_step.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"

namespace mylos::kernels::detail {

void expect_decay(const char* op, const char* name, double value) {
  check(value >= 0.0 && value < 1.0, "{}: {} is {}; it must be in [0, 1)", op, name, value);
}

void expect_state(const char* op, const char* name, const Tensor& t, const Tensor& p) {
  expect_float(op, name, t);
  expect_dense(op, name, t);
  check(t.size() == p.size(), "{}: {} {} and p {} differ in size", op, name, t.describe(), p.describe());
}

void expect_flat_step(const char* op, const FlatStep& s, const FlatOperands& o) {
  check(std::isfinite(s.learning_rate) && s.learning_rate >= 0.0f,
        "{}: learning_rate is {}; it must be finite and at least 0", op, s.learning_rate);
  check(std::isfinite(s.weight_decay) && s.weight_decay >= 0.0f,
        "{}: weight_decay is {}; it must be finite and at least 0", op, s.weight_decay);
  check(s.step >= 1 && s.step <= UINT32_MAX, "{}: step is {}; steps count from 1 to {}", op, s.step, UINT32_MAX);
  expect_float(op, "p", o.p);
  expect_dense(op, "p", o.p);
  expect_state(op, "g", o.g, o.p);
  if (o.scale) expect(op, "scale", o.scale, DType::f32, {1});
  if (!o.low) return;
  check(o.p.dtype() == DType::bf16 && o.low.dtype() == DType::u16, "{}: low {} beside p {}; u16 low belongs to bf16 p",
        op, o.low.describe(), o.p.describe());
  expect_dense(op, "low", o.low);
  check(o.low.size() == o.p.size(), "{}: low {} and p {} differ in size", op, o.low.describe(), o.p.describe());
}

}  // namespace mylos::kernels::detail
