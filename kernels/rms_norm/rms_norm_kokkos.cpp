#include "kernels/rms_norm/forward_rows_gpu.hpp"
#include "kernels/rms_norm/rms_norm_device.hpp"

namespace mylos::kernels::device {
namespace {

std::int64_t rows_of(const Tensor& x) { return x.rank() == 3 ? x.extent(0) * x.extent(1) : x.extent(0); }

template <class T, class WT, ForwardOp op>
struct Forward {
  ForwardOperands<T, WT> o;

  template <class Row>
  KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
    constexpr bool kWithResidual = op == ForwardOp::residual_norm;
    const T* x = o.x.row(r);
    const T* residual = kWithResidual ? o.residual.row(r) : nullptr;
    T* sum = kWithResidual ? o.sum.row(r) : nullptr;
    T* y = o.y.row(r);
    const WT* w = o.w;
    const auto load_row = [=](auto pack, std::int64_t i) {
      constexpr int W = decltype(pack)::value;
      if constexpr (kWithResidual) {
        return rounded_sum(load_words<W>(x + i), load_words<W>(residual + i));
      } else {
        return load_words<W>(x + i);
      }
    };
    const auto use = [=](auto pack, std::int64_t i, const auto& value, float rstd) {
      if constexpr (kWithResidual) store_words(sum + i, value);
      scale_row(value, load<decltype(pack)::value>(w + i), rstd, y + i);
    };
    float* saved = o.rstd;
    if constexpr (op == ForwardOp::apply) {
      const float rstd = saved[r];
      row.load_and_use(o.width, load_row,
                       [=](auto pack, std::int64_t i, const auto& value) { use(pack, i, value, rstd); });
    } else {
      const std::int64_t width = o.width;
      const float eps = o.eps;
      row.sum_and_use(
          width, load_row, [=](const auto& value) { return sum_of_squares(value); },
          [=](float squares) {
            const float rstd = rstd_of(squares, width, eps);
            if (saved != nullptr) row.once([=] { saved[r] = rstd; });
            return rstd;
          },
          use);
    }
  }
};

// Calls f(element type of x, element type of w).
template <class F>
void with_types(const Tensor& x, const Tensor& w, const F& f) {
  if (x.dtype() == DType::f32) return f(float{}, float{});
  if (w.dtype() == DType::f32) return f(bf16{}, float{});
  f(bf16{}, bf16{});
}

// Longer rows on a GPU are those of teams, as far as their registers go. The order of a row's sum is that of its team, so
// all three ops take the same.
template <ForwardOp op, int W, class T, class WT>
void launch(const Exec& exec, const char* label, const ForwardOperands<T, WT>& o, bool vector) {
  if constexpr (kOnGpu) {
    const std::int64_t packs = o.width / W;
    if (vector && o.rows > 0 && o.rows < (std::int64_t(1) << 31) && packs > 32 * kKept && packs <= 2048) {
      if (packs <= 256) return launch_forward_rows<op, W, 128, 2>(exec, label, o);
      if (packs <= 512) return launch_forward_rows<op, W, 128, 4>(exec, label, o);
      if (packs <= 1024) return launch_forward_rows<op, W, 256, 4>(exec, label, o);
      return launch_forward_rows<op, W, 512, 4>(exec, label, o);
    }
  }
  for_each_row<W>(exec, label, o.rows, o.width, vector, Forward<T, WT, op>{o});
}

// residual and sum, and for the forward passes rstd, may be none.
template <ForwardOp op>
void run(const Stream& stream, const char* label, const Tensor& x, const Tensor& residual, const Tensor& w, float eps,
         const Tensor& sum, const Tensor& y, const Tensor& rstd) {
  with_types(x, w, [&](auto type, auto weight_type) {
    using T = decltype(type);
    using WT = decltype(weight_type);
    constexpr int W = pack_width<T, WT>;
    const std::int64_t width = x.extent(-1);
    bool vector = width % W == 0;
    for (const Tensor& t : {x, residual, sum, y, w}) vector = vector && rows_aligned(t);
    const ForwardOperands<T, WT> o{RowsOf<T>(x), RowsOf<T>(residual), RowsOf<T>(sum),
                                   RowsOf<T>(y), w.as<WT>(),          rstd ? rstd.as<float>() : nullptr,
                                   eps,          rows_of(x),          width};
    launch<op, W>(exec_of(stream), label, o, vector);
  });
}

}  // namespace

void rms_norm_forward(const Stream& stream, const Tensor& x, const Tensor& residual, const Tensor& w, float eps,
                      const Tensor& sum, const Tensor& y, const Tensor& rstd) {
  if (residual) {
    run<ForwardOp::residual_norm>(stream, "mylos::residual_rms_norm::forward", x, residual, w, eps, sum, y, rstd);
  } else {
    run<ForwardOp::norm>(stream, "mylos::rms_norm::forward", x, {}, w, eps, {}, y, rstd);
  }
}

void rms_norm_apply(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& rstd, const Tensor& y) {
  run<ForwardOp::apply>(stream, "mylos::rms_norm::apply", x, {}, w, 0.0f, {}, y, rstd);
}

}  // namespace mylos::kernels::device
