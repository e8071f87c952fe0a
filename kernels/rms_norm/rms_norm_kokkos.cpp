#include "kernels/detail/rows.hpp"
#include "kernels/rms_norm/rms_norm_device.hpp"

namespace mylos::kernels::device {
namespace {

std::int64_t rows_of(const Tensor& x) { return x.rank() == 3 ? x.extent(0) * x.extent(1) : x.extent(0); }

// y = x·rstd·w. One function, so that forward, fused and recomputed rows are the same bits.
template <int W, class T, class WT>
MYLOS_FUNCTION void scale_row(const Words<W, T>& x, const WT* w, float rstd, T* y) {
  Floats<W> v = to_floats(x);
  const Floats<W> weight = load<W>(w);
  for (int k = 0; k < W; ++k) v.v[k] = v.v[k] * rstd * weight.v[k];
  store(y, v);
}

// x, or x + residual, read once and kept as it is stored: the norm is that of the rounded sum.
template <class T, class WT, bool with_residual>
struct Forward {
  RowsOf<T> x, residual, sum, y;
  const WT* w;
  float* rstd;
  float eps;
  std::int64_t width;

  template <class Row>
  KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
    const T* a = x.row(r);
    const T* b = with_residual ? residual.row(r) : nullptr;
    T* s = with_residual ? sum.row(r) : nullptr;
    T* to = y.row(r);
    const WT* weight = w;
    float* out = rstd;
    const float count = float(width), epsilon = eps;
    row.sum_and_use(
        width,
        [=](auto pack, std::int64_t i) {
          constexpr int W = decltype(pack)::value;
          if constexpr (with_residual) {
            Floats<W> v = load<W>(a + i);
            const Floats<W> u = load<W>(b + i);
            for (int k = 0; k < W; ++k) v.v[k] += u.v[k];
            return to_words<T>(v);
          } else {
            return load_words<W>(a + i);
          }
        },
        [=](const auto& value) {
          const auto v = to_floats(value);
          float total = 0.0f;
          for (const float element : v.v) total += element * element;
          return total;
        },
        [=](float total) {
          const float scale = 1.0f / Kokkos::sqrt(total / count + epsilon);
          if (out != nullptr) row.once([=] { out[r] = scale; });
          return scale;
        },
        [=](auto, std::int64_t i, const auto& value, float scale) {
          if constexpr (with_residual) store_words(s + i, value);
          scale_row(value, weight + i, scale, to + i);
        });
  }
};

template <class T, class WT>
struct Apply {
  RowsOf<T> x, y;
  const WT* w;
  const float* rstd;
  std::int64_t width;

  template <class Row>
  KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
    const T* from = x.row(r);
    T* to = y.row(r);
    const WT* weight = w;
    const float scale = rstd[r];
    row.load_and_use(
        width, [=](auto pack, std::int64_t i) { return load_words<decltype(pack)::value>(from + i); },
        [=](auto, std::int64_t i, const auto& value) { scale_row(value, weight + i, scale, to + i); });
  }
};

// Calls f(element type of x, element type of w).
template <class F>
void with_types(const Tensor& x, const Tensor& w, const F& f) {
  if (x.dtype() == DType::f32) return f(float{}, float{});
  if (w.dtype() == DType::f32) return f(bf16{}, float{});
  f(bf16{}, bf16{});
}

template <int W>
bool vector_rows(std::initializer_list<Tensor> tensors, std::int64_t width) {
  bool ok = width % W == 0;
  for (const Tensor& t : tensors) ok = ok && rows_aligned(t);
  return ok;
}

}  // namespace

void rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& w, float eps,
                      const Tensor& sum, const Tensor& y, const Tensor& rstd) {
  with_types(x, w, [&](auto type, auto weight_type) {
    using T = decltype(type);
    using WT = decltype(weight_type);
    constexpr int W = pack_width<T, WT>;
    const std::int64_t width = x.extent(-1);
    const auto launch = [&](auto with_residual) {
      for_each_row<W>(exec_of(stream), residual ? "mylos::residual_rms_norm::forward" : "mylos::rms_norm::forward",
                      rows_of(x), width, vector_rows<W>({x, residual, sum, y, w}, width),
                      Forward<T, WT, decltype(with_residual)::value>{RowsOf<T>(x), RowsOf<T>(residual), RowsOf<T>(sum),
                                                                     RowsOf<T>(y), w.as<WT>(),
                                                                     rstd ? rstd.as<float>() : nullptr, eps, width});
    };
    if (residual) {
      launch(std::true_type{});
    } else {
      launch(std::false_type{});
    }
  });
}

void rms_norm_apply(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& rstd, const Tensor& y) {
  with_types(x, w, [&](auto type, auto weight_type) {
    using T = decltype(type);
    using WT = decltype(weight_type);
    constexpr int W = pack_width<T, WT>;
    const std::int64_t width = x.extent(-1);
    for_each_row<W>(exec_of(stream), "mylos::rms_norm::apply", rows_of(x), width, vector_rows<W>({x, y, w}, width),
                    Apply<T, WT>{RowsOf<T>(x), RowsOf<T>(y), w.as<WT>(), rstd.as<float>(), width});
  });
}

}  // namespace mylos::kernels::device
