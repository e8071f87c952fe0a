#include "kernels/rms_norm/rms_norm.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"
#include "kernels/rms_norm/rms_norm_device.hpp"

namespace mylos::kernels {
namespace {

std::int64_t rows_of(const Tensor& x) { return x.rank() == 3 ? x.extent(0) * x.extent(1) : x.extent(0); }

void expect_input(const char* op, const Tensor& x, const Tensor& w) {
  expect_float(op, "x", x);
  check(x.rank() == 2 || x.rank() == 3, "{}: x is {}; it must be [N, D] or [T, H, h]", op, x.describe());
  check(x.extent(-1) > 0, "{}: x is {}; a row needs at least one element", op, x.describe());
  expect_shape(op, "w", w, {x.extent(-1)});
  check(w.dtype() == x.dtype() || w.dtype() == DType::f32, "{}: w is {}; it must be {} (as x) or f32", op, w.describe(),
        name_of(x.dtype()));
}

// A tensor of x's shape and dtype whose rows may be strided.
void expect_like(const char* op, const char* name, const Tensor& t, const Tensor& x) {
  expect_same_shape(op, name, t, x);
  check(t.dtype() == x.dtype(), "{}: {} is {}, expected dtype {} (as x)", op, name, t.describe(), name_of(x.dtype()));
}

void expect_rstd(const char* op, const Tensor& rstd, const Tensor& x) {
  expect(op, "rstd", rstd, DType::f32, {rows_of(x)});
}

void expect_eps(const char* op, float eps) {
  check(eps >= 0.0f && std::isfinite(eps), "{}: eps is {}; it must be finite and at least 0", op, eps);
}

}  // namespace

void rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                      const Tensor& rstd) {
  expect_input("rms_norm_forward", x, w);
  expect_like("rms_norm_forward", "y", y, x);
  expect_eps("rms_norm_forward", eps);
  if (rstd) expect_rstd("rms_norm_forward", rstd, x);
  device::rms_norm_forward(stream, x, {}, w, eps, {}, y, rstd);
}

void residual_rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& w,
                               float eps, const Tensor& sum, const Tensor& y, const Tensor& rstd) {
  const char* op = "residual_rms_norm_forward";
  expect_input(op, x, w);
  expect_shape(op, "x", x, {-1, -1});
  const std::pair<const char*, const Tensor*> operands[] = {
      {"x", &x}, {"residual", &residual}, {"sum", &sum}, {"y", &y}};
  for (const auto& [name, t] : operands) {
    expect_like(op, name, *t, x);
    expect_dense(op, name, *t);
  }
  check(y.data() != sum.data() || y.size() == 0, "{}: y and sum are the same memory; both are results", op);
  expect_eps(op, eps);
  if (rstd) expect_rstd(op, rstd, x);
  device::rms_norm_forward(stream, x, residual, w, eps, sum, y, rstd);
}

void rms_norm_apply(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& rstd, const Tensor& y) {
  expect_input("rms_norm_apply", x, w);
  expect_like("rms_norm_apply", "y", y, x);
  expect_rstd("rms_norm_apply", rstd, x);
  device::rms_norm_apply(stream, x, w, rstd, y);
}

std::int64_t rms_norm_backward_workspace(std::int64_t rows, std::int64_t width) {
  check(rows >= 0 && width > 0, "rms_norm_backward_workspace: {} rows of {} elements", rows, width);
  return device::rms_norm_blocks(rows) * width * size_of(DType::f32);
}

void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                       const Tensor& dresidual, bool accumulate, const Tensor& workspace, const Tensor& dx,
                       const Tensor& dw) {
  const char* op = "rms_norm_backward";
  expect_input(op, x, w);
  expect_like(op, "dy", dy, x);
  expect_like(op, "dx", dx, x);
  if (dresidual) expect_like(op, "dresidual", dresidual, x);
  expect_rstd(op, rstd, x);
  expect_float(op, "dw", dw);
  expect_shape(op, "dw", dw, {x.extent(-1)});
  expect_workspace(op, workspace, rms_norm_backward_workspace(rows_of(x), x.extent(-1)));
  device::rms_norm_backward(stream, dy, x, w, rstd, dresidual, accumulate, workspace, dx, dw);
}

}  // namespace mylos::kernels
