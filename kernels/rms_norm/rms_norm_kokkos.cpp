#include "kernels/detail/rows.hpp"
#include "kernels/rms_norm/rms_norm_device.hpp"

namespace mylos::kernels::device {
namespace {

std::int64_t rows_of(const Tensor& x) { return x.rank() == 3 ? x.extent(0) * x.extent(1) : x.extent(0); }

// y = x·rstd·w. One function, so that forward, fused and recomputed rows are the same bits.
template <int W, class T, class WT>
MYLOS_FUNCTION void scale_row(const T* x, const WT* w, float rstd, T* y, std::int64_t i) {
  Floats<W> v = load<W>(x + i);
  const Floats<W> weight = load<W>(w + i);
  for (int k = 0; k < W; ++k) v.v[k] = v.v[k] * rstd * weight.v[k];
  store(y + i, v);
}

template <int W>
MYLOS_FUNCTION float squares(const Floats<W>& x) {
  float s = 0.0f;
  for (int k = 0; k < W; ++k) s += x.v[k] * x.v[k];
  return s;
}

// Each thread reads back, after the reduction, what it wrote before: no barrier is needed between the passes.
template <class T, class WT>
struct Forward {
  RowsOf<T> x, residual, sum, y;
  const WT* w;
  float* rstd;
  float eps;
  std::int64_t width;
  bool with_residual;

  template <class Row>
  KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
    T* in = x.row(r);
    if (with_residual) {
      const T* a = in;
      const T* b = residual.row(r);
      T* s = sum.row(r);
      row.each(width, [=](auto pack, std::int64_t i) {
        constexpr int W = decltype(pack)::value;
        Floats<W> v = load<W>(a + i);
        const Floats<W> u = load<W>(b + i);
        for (int k = 0; k < W; ++k) v.v[k] += u.v[k];
        store(s + i, v);
      });
      in = s;
    }
    const T* from = in;
    const float total =
        row.sum(width, [=](auto pack, std::int64_t i) { return squares(load<decltype(pack)::value>(from + i)); });
    const float scale = 1.0f / Kokkos::sqrt(total / float(width) + eps);
    if (rstd != nullptr) {
      float* out = rstd + r;
      row.once([=] { *out = scale; });
    }
    const WT* weight = w;
    T* to = y.row(r);
    row.each(width, [=](auto pack, std::int64_t i) { scale_row<decltype(pack)::value>(from, weight, scale, to, i); });
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
    row.each(width, [=](auto pack, std::int64_t i) { scale_row<decltype(pack)::value>(from, weight, scale, to, i); });
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
    const Forward<T, WT> body{RowsOf<T>(x),
                              RowsOf<T>(residual),
                              RowsOf<T>(sum),
                              RowsOf<T>(y),
                              w.as<WT>(),
                              rstd ? rstd.as<float>() : nullptr,
                              eps,
                              width,
                              bool(residual)};
    for_each_row<W>(exec_of(stream), residual ? "mylos::residual_rms_norm::forward" : "mylos::rms_norm::forward",
                    rows_of(x), width, vector_rows<W>({x, residual, sum, y, w}, width), body);
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
