// A row of the backward pass: its operands, the two sums and the three results in terms of W elements. Not for use outside
// this folder.
#pragma once

#include "kernels/detail/rows.hpp"

namespace mylos::kernels::device {

template <class T, class WT>
struct Operands {
  RowsOf<T> dy, x, dresidual, dx;
  const WT* w;
  const float* rstd;
  std::int64_t rows, width;
  bool with_residual;
};

template <class T, class WT>
struct RowPointers {
  const T* dy;
  const T* x;
  const T* dresidual;  // nullptr when there is none
  T* dx;
  const WT* w;
  float rstd;

  KOKKOS_FUNCTION RowPointers(const Operands<T, WT>& o, std::int64_t r) : RowPointers(o, r, o.rstd[r]) {}
  KOKKOS_FUNCTION RowPointers(const Operands<T, WT>& o, std::int64_t r, float scale)
      : dy(o.dy.row(r)),
        x(o.x.row(r)),
        dresidual(o.with_residual ? o.dresidual.row(r) : nullptr),
        dx(o.dx.row(r)),
        w(o.w),
        rstd(scale) {}

  // The part of sum(dy·w·x) of W elements, given those of w, dy and x.
  template <int W>
  static MYLOS_FUNCTION float dot(const Floats<W>& weight, const Floats<W>& d, const Floats<W>& v) {
    float s = 0.0f;
    for (int k = 0; k < W; ++k) s += d.v[k] * weight.v[k] * v.v[k];
    return s;
  }
  template <int W>
  MYLOS_FUNCTION float dot(std::int64_t i, const Floats<W>& d, const Floats<W>& v) const {
    return dot(load<W>(w + i), d, v);
  }
  // sums += dy·x·rstd
  template <int W>
  MYLOS_FUNCTION void add_weight_gradient(const Floats<W>& d, const Floats<W>& v, Floats<W>& sums) const {
    for (int k = 0; k < W; ++k) sums.v[k] += d.v[k] * (v.v[k] * rstd);
  }
  // common = rstd²·mean(dy·w·x), g: dresidual or zeros
  template <int W>
  MYLOS_FUNCTION void write_dx(std::int64_t i, const Floats<W>& d, const Floats<W>& v, const Floats<W>& g,
                               float common) const {
    write_dx(i, load<W>(w + i), d, v, g, common);
  }
  template <int W>
  MYLOS_FUNCTION void write_dx(std::int64_t i, const Floats<W>& weight, const Floats<W>& d, const Floats<W>& v,
                               Floats<W> g, float common) const {
    for (int k = 0; k < W; ++k) g.v[k] += rstd * (d.v[k] * weight.v[k] - v.v[k] * common);
    store(dx + i, g);
  }
  template <int W>
  MYLOS_FUNCTION Floats<W> residual(std::int64_t i) const {
    Floats<W> g{};
    if (dresidual != nullptr) g = load<W>(dresidual + i);
    return g;
  }

  // What a GPU keeps of W elements between the two passes over a row.
  template <int W>
  struct Kept {
    Words<W, T> dy, x, dresidual;  // dresidual: zeros when there is none
  };
  template <int W>
  MYLOS_FUNCTION Kept<W> read(std::int64_t i) const {
    return {load_words<W>(dy + i), load_words<W>(x + i),
            dresidual != nullptr ? load_words<W>(dresidual + i) : Words<W, T>{}};
  }
  template <int W>
  MYLOS_FUNCTION float dot(std::int64_t i, const Kept<W>& kept) const {
    return dot(i, to_floats(kept.dy), to_floats(kept.x));
  }
  template <int W>
  MYLOS_FUNCTION void write_dx(std::int64_t i, const Kept<W>& kept, float common) const {
    write_dx(i, to_floats(kept.dy), to_floats(kept.x), to_floats(kept.dresidual), common);
  }
  template <int W>
  MYLOS_FUNCTION void add_weight_gradient(const Kept<W>& kept, Floats<W>& sums) const {
    add_weight_gradient(to_floats(kept.dy), to_floats(kept.x), sums);
  }
  MYLOS_FUNCTION float common(float total, std::int64_t width) const { return rstd * rstd * (total / float(width)); }
};

}  // namespace mylos::kernels::device
