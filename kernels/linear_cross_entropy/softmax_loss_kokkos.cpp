#include <algorithm>
#include <cfloat>
#include <cmath>

#include "kernels/linear_cross_entropy/exp.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"
#include "tensor/detail/exec.hpp"

namespace mylos::kernels::detail {
namespace {

using Policy = Kokkos::TeamPolicy<Exec>;
using Member = Policy::member_type;

template <class T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / int(sizeof(T));
  T v[kSize];
};

// A label beyond the vocabulary is a broken batch: its loss is NaN, which the step reports, rather than a read out of
// bounds.
template <class T>
KOKKOS_FUNCTION float label_logit(const T* x, std::int32_t label, std::int64_t vocabulary) {
  return label < vocabulary ? float(x[label]) : NAN;
}

// Of the row's gradient: NaN from a number that is not finite or a label beyond the vocabulary, so that it ends up in the
// gradients' norm, which the host looks at.
KOKKOS_FUNCTION float row_scale(const float* grad_scale, std::int32_t label, std::int64_t vocabulary) {
  const float scale = *grad_scale;
  return label < vocabulary && Kokkos::isfinite(scale) ? scale : NAN;
}

// One team a row. Maximum and sum in one pass (Milakov and Gimelshein 2018): a thread rescales its sum when its
// maximum grows.
template <class T, bool with_gradient>
struct TeamRow {
  LossRows rows;
  const float* grad_scale;

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    constexpr int kSize = Pack<T>::kSize;
    const std::int64_t row = team.league_rank(), n = rows.vocabulary, packs = n / kSize;
    T* const x = static_cast<T*>(rows.logits) + row * rows.stride;
    Pack<T>* const packed = reinterpret_cast<Pack<T>*>(x);
    const std::int32_t label = rows.labels[row];
    const int rank = team.team_rank(), step = team.team_size();
    if (label < 0) {
      if (rank == 0) rows.loss[row] = 0.0f;
      if constexpr (with_gradient) {
        const T none(0.0f * row_scale(grad_scale, label, n));
        for (std::int64_t i = rank; i < n; i += step) x[i] = none;
      }
      return;
    }
    const float wanted =
        label_logit(x, label, n);  // before any thread overwrites it: the reductions below are barriers
    float top = -FLT_MAX, sum = 0.0f;
    for (std::int64_t p = rank; p < packs; p += step) {
      const Pack<T> v = packed[p];
      float local = top;
      for (int j = 0; j < kSize; ++j) local = float(v.v[j]) > local ? float(v.v[j]) : local;
      sum *= Kokkos::exp(top - local);
      top = local;
      for (int j = 0; j < kSize; ++j) sum += Kokkos::exp(float(v.v[j]) - top);
    }
    for (std::int64_t i = packs * kSize + rank; i < n; i += step) {
      const float v = float(x[i]), local = v > top ? v : top;
      sum = sum * Kokkos::exp(top - local) + Kokkos::exp(v - local);
      top = local;
    }
    float row_top = top;
    team.team_reduce(Kokkos::Max<float>(row_top));
    float row_sum = sum * Kokkos::exp(top - row_top);
    team.team_reduce(Kokkos::Sum<float>(row_sum));
    if (rank == 0) rows.loss[row] = (row_top - wanted) + Kokkos::log(row_sum);
    if constexpr (with_gradient) {
      const float wanted_scale = row_scale(grad_scale, label, n), scale = wanted_scale / row_sum;
      const auto gradient = [&](T logit, std::int64_t i) {
        return T(Kokkos::exp(float(logit) - row_top) * scale - (i == label ? wanted_scale : 0.0f));
      };
      for (std::int64_t p = rank; p < packs; p += step) {
        Pack<T> v = packed[p];
        for (int j = 0; j < kSize; ++j) v.v[j] = gradient(v.v[j], p * kSize + j);
        packed[p] = v;
      }
      for (std::int64_t i = packs * kSize + rank; i < n; i += step) x[i] = gradient(x[i], i);
    }
  }
};

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
    for (std::int64_t i = begin; i < end; ++i) sum += exp_of_negative(float(x[i]) - top);
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
  rows.loss[row] = (top - label_logit(x, label, n)) + float(std::log(sum));
  if constexpr (with_gradient) {
    const float at_label = label < n ? exp_of_negative(float(x[label]) - top) : 0.0f;
    const float wanted_scale = row_scale(grad_scale, label, n), scale = float(double(wanted_scale) / sum);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) store(x[i], exp_of_negative(float(x[i]) - top) * scale);
    if (label < n) x[label] = T(at_label * scale - wanted_scale);
  }
}
#endif

template <class T, bool with_gradient>
void run(const Stream& stream, const LossRows& rows, const float* grad_scale) {
#if defined(KOKKOS_ENABLE_CUDA)
  constexpr int kThreads = 512;
  Kokkos::parallel_for(
      with_gradient ? "mylos::linear_cross_entropy::loss_gradient" : "mylos::linear_cross_entropy::loss",
      Policy(exec_of(stream), int(rows.tokens), kThreads), TeamRow<T, with_gradient>{rows, grad_scale});
#else
  using Rows = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t> >;
  Kokkos::parallel_for(
      with_gradient ? "mylos::linear_cross_entropy::loss_gradient" : "mylos::linear_cross_entropy::loss",
      Rows(exec_of(stream), 0, rows.tokens),
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
