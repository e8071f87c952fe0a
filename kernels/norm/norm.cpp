#include "kernels/norm/norm.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"
#include "kernels/norm/norm_device.hpp"

namespace mylos::kernels {
namespace {

void expect_operands(const char* op, const Tensor& t, const Tensor& workspace, const Tensor& result) {
  expect_float(op, "t", t);
  expect_dense(op, "t", t);
  expect_workspace(op, workspace, sum_workspace());
  expect(op, "result", result, DType::f64, {1});
}

}  // namespace

std::int64_t sum_workspace() { return device::kSumBlocks * size_of(DType::f64); }

void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result) {
  expect_operands("sum_of_squares", t, workspace, result);
  device::sum_of_squares(stream, t, workspace, result);
}

void sum(const Stream& stream, const Tensor& t, bool accumulate, const Tensor& workspace, const Tensor& result) {
  expect_operands("sum", t, workspace, result);
  device::sum(stream, t, accumulate, workspace, result);
}

void clip_scale(const Stream& stream, const Tensor& squares, float max_norm, const Tensor& norm_and_scale) {
  expect("clip_scale", "squares", squares, DType::f64, {1});
  expect("clip_scale", "norm_and_scale", norm_and_scale, DType::f32, {2});
  check(!std::isnan(max_norm), "clip_scale: max_norm is NaN; give the largest norm allowed, or 0 for no clipping");
  device::clip_scale(stream, squares, max_norm, norm_and_scale);
}

}  // namespace mylos::kernels
