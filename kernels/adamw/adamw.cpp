#include "kernels/adamw/adamw.hpp"

#include <cmath>

#include "kernels/adamw/adamw_device.hpp"
#include "kernels/detail/checks.hpp"
#include "kernels/optimizer/flat_step.hpp"

namespace mylos::kernels {
namespace {

void expect_flat(const char* op, const char* name, const Tensor& t, const Tensor& p) {
  expect_dense(op, name, t);
  check(t.size() == p.size(), "{}: {} {} and p {} differ in size", op, name, t.describe(), p.describe());
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

void adamw(const Stream& stream, const AdamWStep& s, const Tensor& g, const Tensor& scale, const Tensor& p,
           const Tensor& low, const Tensor& m, const Tensor& v) {
  detail::expect_flat_step("adamw", {.learning_rate = s.learning_rate, .weight_decay = s.weight_decay, .step = s.step},
                           {g, scale, p, low});
  detail::expect_decay("adamw", "beta1", s.beta1);
  detail::expect_decay("adamw", "beta2", s.beta2);
  check(std::isfinite(s.eps) && s.eps >= 0.0f, "adamw: eps is {}; it must be finite and at least 0", s.eps);
  detail::expect_state("adamw", "m", m, p);
  detail::expect_state("adamw", "v", v, p);
  check(m.dtype() == v.dtype(), "adamw: m is {} and v is {}; they must share a dtype", m.describe(), v.describe());
  device::adamw(stream, s, g, scale, p, low, m, v);
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
