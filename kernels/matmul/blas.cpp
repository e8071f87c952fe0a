// OpenBLAS on the CPU. Its extents are 32-bit; bf16 goes through fp32 panels, which the caller's workspace holds.
#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "kernels/matmul/providers.hpp"

namespace mylos::kernels::detail {
namespace {

static_assert(sizeof(blasint) == 4, "the limits below are those of 32-bit BLAS integers");

blasint narrowed(const char* what, std::int64_t n) {
  check(n <= std::numeric_limits<blasint>::max(), "matmul: {} is {}, above BLAS' limit of {}; slice the product", what,
        n, std::numeric_limits<blasint>::max());
  return blasint(n);
}

void sgemm(const Product& p) {
  cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans,
              narrowed("M", p.m), narrowed("N", p.n), narrowed("L", p.l), p.alpha, static_cast<const float*>(p.a.data),
              narrowed("the row stride of A", p.a.stride), static_cast<const float*>(p.b.data),
              narrowed("the row stride of B", p.b.stride), p.beta, static_cast<float*>(p.c.data),
              narrowed("the row stride of C", p.c.stride));
}

StoredMatrix block(const StoredMatrix& x, DType dtype, std::int64_t row, std::int64_t column) {
  return {static_cast<std::byte*>(x.data) + (row * x.stride + column) * size_of(dtype), x.stride};
}

// The stored block [rows, columns] at (row, column), in fp32: itself, or a copy in the panel.
StoredMatrix as_float(const Stream& stream, const StoredMatrix& x, DType dtype, std::int64_t row, std::int64_t column,
                      std::int64_t rows, std::int64_t columns, float* panel) {
  const StoredMatrix part = block(x, dtype, row, column);
  if (dtype == DType::f32) return part;
  widen_panel(stream, part, rows, columns, panel);
  return {panel, columns};
}

}  // namespace

bool blas_needs_panels(const Product& p) { return p.in != DType::f32 || p.out != DType::f32; }

void blas_product(const Stream& stream, const Product& product, void* panels) {
  const bool narrow = product.out != DType::f32;
  const Product p = narrow ? product : with_addend_in_place(stream, product);
  if (!blas_needs_panels(p)) return sgemm(p);
  float* const panel_a = static_cast<float*>(panels);
  float* const panel_b = panel_a + kPanelSide * kPanelSide;
  float* const panel_c = panel_b + kPanelSide * kPanelSide;
  for (std::int64_t i = 0; i < p.m; i += kPanelSide) {
    const std::int64_t m = std::min(kPanelSide, p.m - i);
    for (std::int64_t j = 0; j < p.n; j += kPanelSide) {
      const std::int64_t n = std::min(kPanelSide, p.n - j);
      const StoredMatrix target = block(p.c, p.out, i, j);
      for (std::int64_t k = 0; k < p.l; k += kPanelSide) {
        const std::int64_t l = std::min(kPanelSide, p.l - k);
        Product part = p;
        part.m = m, part.n = n, part.l = l, part.in = part.out = DType::f32;
        part.a = p.transpose_a ? as_float(stream, p.a, p.in, k, i, l, m, panel_a)
                               : as_float(stream, p.a, p.in, i, k, m, l, panel_a);
        part.b = p.transpose_b ? as_float(stream, p.b, p.in, j, k, n, l, panel_b)
                               : as_float(stream, p.b, p.in, k, j, l, n, panel_b);
        part.c = narrow ? StoredMatrix{panel_c, n} : target;
        part.beta = k > 0 ? 1.0f : narrow ? 0.0f : p.beta;
        sgemm(part);
      }
      if (narrow) narrow_panel(stream, panel_c, m, n, p.beta, block(p.z, p.out, i, j), target);
    }
  }
}

}  // namespace mylos::kernels::detail
