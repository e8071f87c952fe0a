#include "kernels/norm/norm.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"
#include "kernels/norm/norm_device.hpp"

namespace mylos::kernels {
std::int64_t sum_workspace() { return device::kSumBlocks * size_of(DType::f64); }

void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result) {
  expect_float("sum_of_squares", "t", t);
  expect_dense("sum_of_squares", "t", t);
  expect_workspace("sum_of_squares", workspace, sum_workspace());
  expect("sum_of_squares", "result", result, DType::f64, {1});
  device::sum_of_squares(stream, t, workspace, result);
}

void sum_rows(const Stream& stream, const Tensor& t, const Tensor& result) {
  expect_float("sum_rows", "t", t);
  expect_shape("sum_rows", "t", t, {-1, -1});
  expect_dense("sum_rows", "t", t);
  expect("sum_rows", "result", result, DType::f64, {t.extent(0)});
  if (t.extent(0) > 0) device::sum_rows(stream, t, result);
}

void clip_scale(const Stream& stream, const Tensor& squares, float max_norm, const Tensor& norm_and_scale) {
  expect("clip_scale", "squares", squares, DType::f64, {1});
  expect("clip_scale", "norm_and_scale", norm_and_scale, DType::f32, {2});
  check(!std::isnan(max_norm), "clip_scale: max_norm is NaN; give the largest norm allowed, or 0 for no clipping");
  device::clip_scale(stream, squares, max_norm, norm_and_scale);
}

}  // namespace mylos::kernels
