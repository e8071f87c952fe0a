// What the forward passes share: their operands and the scaling of W elements. Not for use outside this folder.
#pragma once

#include "kernels/detail/rows.hpp"

namespace mylos::kernels::device {

enum class ForwardOp { norm, residual_norm, apply };

template <class T, class WT>
struct ForwardOperands {
  RowsOf<T> x, residual, sum, y;
  const WT* w;
  float* rstd;  // a result (or nullptr), but what apply() reads
  float eps;
  std::int64_t rows, width;
};

// The same instructions for the forward pass and for apply(), so that recomputed rows are the same bits.
template <int W, class T>
MYLOS_FUNCTION void scale_row(const Words<W, T>& x, const Floats<W>& weight, float rstd, T* y) {
  Floats<W> v = to_floats(x);
  for (int k = 0; k < W; ++k) v.v[k] = v.v[k] * rstd * weight.v[k];
  store(y, v);
}

// The sum of W elements of x and the residual as it is stored: the norm is that of the rounded sum.
template <int W, class T>
MYLOS_FUNCTION Words<W, T> rounded_sum(const Words<W, T>& x, const Words<W, T>& residual) {
  Floats<W> v = to_floats(x);
  const Floats<W> u = to_floats(residual);
  for (int k = 0; k < W; ++k) v.v[k] += u.v[k];
  return to_words<T>(v);
}

template <int W, class T>
MYLOS_FUNCTION float sum_of_squares(const Words<W, T>& x) {
  const Floats<W> v = to_floats(x);
  float s = 0.0f;
  for (const float element : v.v) s += element * element;
  return s;
}

MYLOS_FUNCTION float rstd_of(float squares, std::int64_t width, float eps) {
  return 1.0f / Kokkos::sqrt(squares / float(width) + eps);
}

}  // namespace mylos::kernels::device
