#include "kernels/adamw/adamw.hpp"

#include <cmath>

#include "kernels/adamw/adamw_device.hpp"
#include "kernels/detail/checks.hpp"

namespace mylos::kernels {
namespace {

void expect_flat(const char* op, const char* name, const Tensor& t, const Tensor& p) {
  expect_dense(op, name, t);
  check(t.size() == p.size(), "{}: {} {} and p {} differ in size", op, name, t.describe(), p.describe());
}

void expect_hyperparameters(const AdamWStep& s) {
  check(std::isfinite(s.learning_rate) && s.learning_rate >= 0.0f,
        "adamw: learning_rate is {}; it must be finite and at least 0", s.learning_rate);
  check(s.beta1 >= 0.0f && s.beta1 < 1.0f, "adamw: beta1 is {}; it must be in [0, 1)", s.beta1);
  check(s.beta2 >= 0.0f && s.beta2 < 1.0f, "adamw: beta2 is {}; it must be in [0, 1)", s.beta2);
  check(std::isfinite(s.eps) && s.eps >= 0.0f, "adamw: eps is {}; it must be finite and at least 0", s.eps);
  check(std::isfinite(s.weight_decay) && s.weight_decay >= 0.0f,
        "adamw: weight_decay is {}; it must be finite and at least 0", s.weight_decay);
  check(s.step >= 1 && s.step <= UINT32_MAX, "adamw: step is {}; steps count from 1 to {}", s.step, UINT32_MAX);
}

void expect_split(const char* op, const Tensor& master, const Tensor& p, const Tensor& low) {
  check(p && p.dtype() == DType::bf16, "{}: p is {}; it must be bf16", op, p.describe());
  check(low && low.dtype() == DType::u16, "{}: low is {}; it must be u16", op, low.describe());
  check(master && master.dtype() == DType::f32, "{}: master is {}; it must be f32", op, master.describe());
  expect_dense(op, "p", p);
  expect_flat(op, "low", low, p);
  expect_flat(op, "master", master, p);
}

}  // namespace

void adamw(const Stream& stream, const AdamWStep& step, const Tensor& g, const Tensor& scale, const Tensor& p,
           const Tensor& low, const Tensor& m, const Tensor& v) {
  expect_hyperparameters(step);
  expect_float("adamw", "p", p);
  expect_dense("adamw", "p", p);
  const std::pair<const char*, const Tensor*> operands[] = {{"g", &g}, {"m", &m}, {"v", &v}};
  for (const auto& [name, t] : operands) {
    expect_float("adamw", name, *t);
    expect_flat("adamw", name, *t, p);
  }
  check(m.dtype() == v.dtype(), "adamw: m is {} and v is {}; they must share a dtype", m.describe(), v.describe());
  if (scale) expect("adamw", "scale", scale, DType::f32, {1});
  if (low) {
    check(p.dtype() == DType::bf16 && low.dtype() == DType::u16, "adamw: low {} beside p {}; u16 low belongs to bf16 p",
          low.describe(), p.describe());
    expect_flat("adamw", "low", low, p);
  }
  device::adamw(stream, step, g, scale, p, low, m, v);
}

void split_master(const Stream& stream, const Tensor& master, const Tensor& p, const Tensor& low) {
  expect_split("split_master", master, p, low);
  device::split_master(stream, master, p, low);
}

void join_master(const Stream& stream, const Tensor& p, const Tensor& low, const Tensor& master) {
  expect_split("join_master", master, p, low);
  device::join_master(stream, p, low, master);
}

}  // namespace mylos::kernels
