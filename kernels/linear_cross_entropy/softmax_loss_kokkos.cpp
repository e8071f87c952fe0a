#include <algorithm>
#include <cfloat>
#include <cmath>
#include <type_traits>

#include "kernels/detail/math.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"
#include "kernels/linear_cross_entropy/softmax_rows_gpu.hpp"

namespace mylos::kernels::detail {
namespace {

#if !defined(KOKKOS_ENABLE_CUDA)
// Stores the bits: GCC vectorises that, but not the copy of a bf16 object.
void store(float& x, float value) { x = value; }
void store(bf16& x, float value) { x.bits = bf16::round_to_nearest(value); }

template <class T>
float row_maximum(const T* x, std::int64_t n) {
  float top = -FLT_MAX;
#pragma omp simd reduction(max : top)
  for (std::int64_t i = 0; i < n; ++i) top = float(x[i]) > top ? float(x[i]) : top;
  return top;
}

// Blocks are summed in fp32 and added up in fp64, so that the length of a row costs no accuracy.
template <class T>
double sum_of_exp(const T* x, std::int64_t n, float top) {
  constexpr std::int64_t kBlock = 2048;
  double total = 0.0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = begin + kBlock < n ? begin + kBlock : n;
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = begin; i < end; ++i) sum += exp_f32(float(x[i]) - top);
    total += double(sum);
  }
  return total;
}

// One row a thread: a row and its exponentials stay in that core's cache, so exp is computed twice rather than stored.
template <class T, bool with_gradient>
void host_row(const LossRows& rows, const float* grad_scale, std::int64_t row) {
  const std::int64_t n = rows.vocabulary;
  T* const x = static_cast<T*>(rows.logits) + row * rows.stride;
  const std::int32_t label = rows.labels[row];
  if (label < 0) {
    rows.loss[row] = 0.0f;
    if constexpr (with_gradient) std::fill_n(x, n, T(0.0f * row_scale(grad_scale, label, n)));
    return;
  }
  const float top = row_maximum(x, n);
  const double sum = sum_of_exp(x, n, top);
  // A label beyond the vocabulary is a broken batch: its loss is NaN, which the step reports, rather than a read out of
  // bounds.
  rows.loss[row] = (top - (label < n ? float(x[label]) : NAN)) + float(std::log(sum));
  if constexpr (with_gradient) {
    const float at_label = label < n ? exp_f32(float(x[label]) - top) : 0.0f;
    const float wanted_scale = row_scale(grad_scale, label, n), scale = float(double(wanted_scale) / sum);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) store(x[i], exp_f32(float(x[i]) - top) * scale);
    if (label < n) x[label] = T(at_label * scale - wanted_scale);
  }
}
#endif

template <class T, bool with_gradient>
void run(const Stream& stream, const LossRows& rows, const float* grad_scale) {
  const char* label =
      with_gradient ? "mylos::linear_cross_entropy::loss_gradient" : "mylos::linear_cross_entropy::loss";
#if defined(KOKKOS_ENABLE_CUDA)
  // Rows of up to 64 KB, two teams a multiprocessor; and up to 256 KB, which takes one of them whole. Threads and batches decide
  // the order of the sum: they are the same with and without a gradient, and so are the bits of a loss. Without one a row is
  // read in half the time, which deeper rings serve best.
  using Short = std::conditional_t<with_gradient, RowShape<512, 2, 1, 4, 4, 5, 2>, RowShape<512, 2, 1, 8, 0, 8>>;
  using Long = std::conditional_t<with_gradient, RowShape<512, 1, 4, 4, 4, 6, 1>, RowShape<512, 1, 4, 8, 0, 7>>;
  if (rows.vocabulary * std::int64_t(sizeof(T)) <= Short::kRowBytes)
    launch_rows<T, with_gradient, Short>(exec_of(stream), label, rows, grad_scale);
  else
    launch_rows<T, with_gradient, Long>(exec_of(stream), label, rows, grad_scale);
#else
  using Rows = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label, Rows(exec_of(stream), 0, rows.tokens),
                       [=](std::int64_t row) { host_row<T, with_gradient>(rows, grad_scale, row); });
#endif
}

}  // namespace

bool loss_on_gpu() { return kOnGpu; }

void softmax_loss(const Stream& stream, const LossRows& rows) {
  if (rows.dtype == DType::bf16)
    run<bf16, false>(stream, rows, nullptr);
  else
    run<float, false>(stream, rows, nullptr);
}

void softmax_loss_gradient(const Stream& stream, const LossRows& rows, const float* grad_scale) {
  if (rows.dtype == DType::bf16)
    run<bf16, true>(stream, rows, grad_scale);
  else
    run<float, true>(stream, rows, grad_scale);
}

}  // namespace mylos::kernels::detail
