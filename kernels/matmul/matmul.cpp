#include "kernels/matmul/matmul.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/matmul/providers.hpp"
#include "kernels/matmul/tiles.hpp"

namespace mylos::kernels {
namespace {

constexpr const char* kOp = "matmul";

#if defined(MYLOS_CUBLASLT)
constexpr bool kHasCublasLt = true;
#else
constexpr bool kHasCublasLt = false;
#endif

const char* name_of(MatmulProvider provider) {
  switch (provider) {
    case MatmulProvider::automatic:
      return "automatic";
    case MatmulProvider::reference:
      return "reference";
    case MatmulProvider::blas:
      return "blas";
    case MatmulProvider::onednn:
      return "onednn";
    case MatmulProvider::cublaslt:
      return "cublaslt";
    case MatmulProvider::tiles:
      return "tiles";
  }
  return "unknown";
}

// On the CPU, two AMX cores, medians of nine interleaved runs over nine shapes of training (GFLOP/s): f32 OpenBLAS
// 0.3.21 289-329, oneDNN 2.6 sgemm 310-368 (3 to 13 % more; 293 against 179 for 333 x 257 x 129); bf16 oneDNN
// 1050-1700 (550 for that odd shape).
MatmulProvider fastest(const detail::Product& p) {
  const bool narrows = p.in == DType::f32 && p.out == DType::bf16;
  if (detail::on_gpu()) return narrows ? MatmulProvider::reference : MatmulProvider::cublaslt;
  return !narrows && has_provider(MatmulProvider::onednn, p.in) ? MatmulProvider::onednn : MatmulProvider::blas;
}

void expect_float(const char* name, const Tensor& t) {
  check(t.rank() == 2, "{}: {} is {}, expected a matrix", kOp, name, t.describe());
  check(t.dtype() == DType::f32 || t.dtype() == DType::bf16, "{}: {} is {}; products are of f32 or bf16", kOp, name,
        t.describe());
  check(t.stride(1) == 1 || t.extent(1) <= 1, "{}: the rows of {} ({}) have gaps between their elements", kOp, name,
        t.describe());
}

// A matrix of one row may carry any stride; providers want at least the row's length.
detail::StoredMatrix stored(const Tensor& t) {
  return {t.data(), std::max<std::int64_t>({t.stride(0), t.extent(1), 1})};
}

void* need_workspace(const Tensor& workspace, std::int64_t bytes) {
  check(bool(workspace) && workspace.is_dense() && workspace.bytes() >= bytes,
        "{}: the workspace {} has {} bytes, this product needs {}; give it matmul_workspace() bytes", kOp,
        workspace.describe(), workspace.bytes(), bytes);
  return workspace.data();
}

}  // namespace

std::int64_t matmul_workspace() { return detail::on_gpu() ? detail::kCublasLtWorkspace : 3 * detail::kPanelBytes; }

bool has_provider(MatmulProvider provider, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::bf16) return false;
  switch (provider) {
    case MatmulProvider::automatic:
    case MatmulProvider::reference:
      return true;
    case MatmulProvider::blas:
      return !detail::on_gpu();
    case MatmulProvider::onednn:
#if defined(MYLOS_ONEDNN)
      return !detail::on_gpu() && detail::onednn_is_fast(dtype);
#else
      return false;
#endif
    case MatmulProvider::cublaslt:
      return kHasCublasLt && detail::on_gpu();
    case MatmulProvider::tiles:
#if defined(MYLOS_TILES)
      return dtype == DType::bf16 && detail::has_tiles();
#else
      return false;
#endif
  }
  return false;
}

detail::Product detail::checked_product(const Tensor& a, const Tensor& b, const MatmulOptions& options,
                                        const Tensor& c) {
  expect_float("A", a);
  expect_float("B", b);
  expect_float("C", c);
  check(a.dtype() == b.dtype(), "{}: A is {} and B is {}; they must share a dtype", kOp, a.describe(), b.describe());
  const bool ta = options.a == Transpose::yes, tb = options.b == Transpose::yes;
  const Tensor& z = options.addend ? options.addend : c;
  expect_float("the addend", z);
  const detail::Product p{.m = a.extent(ta ? 1 : 0),
                          .n = b.extent(tb ? 0 : 1),
                          .l = a.extent(ta ? 0 : 1),
                          .transpose_a = ta,
                          .transpose_b = tb,
                          .alpha = options.alpha,
                          .beta = options.beta,
                          .in = a.dtype(),
                          .out = c.dtype(),
                          .a = stored(a),
                          .b = stored(b),
                          .c = stored(c),
                          .z = stored(z)};
  check(b.extent(tb ? 1 : 0) == p.l, "{}: op(A) is [{}, {}] and op(B) is [{}, {}]; their inner extents differ", kOp,
        p.m, p.l, b.extent(tb ? 1 : 0), p.n);
  check(c.extent(0) == p.m && c.extent(1) == p.n, "{}: C is {}, expected shape [{}, {}]", kOp, c.describe(), p.m, p.n);
  check(z.dtype() == c.dtype() && z.extent(0) == p.m && z.extent(1) == p.n,
        "{}: the addend is {}, expected shape and dtype of C, {}", kOp, z.describe(), c.describe());
  return p;
}

void matmul(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
            const Tensor& workspace, const Tensor& c) {
  const detail::Product p = detail::checked_product(a, b, options, c);
  if (p.m == 0 || p.n == 0) return;
  if (p.l == 0) return detail::scale(stream, p);

  const MatmulProvider provider = options.provider == MatmulProvider::automatic ? fastest(p) : options.provider;
  check(has_provider(provider, p.in), "{}: provider '{}' is not there for {} on this device or in this build", kOp,
        name_of(provider), mylos::name_of(p.in));
  // cuBLASLt has no such product, and oneDNN 2.6 computes it wrongly when beta is not 0.
  check(
      p.in == p.out || p.in == DType::bf16 || provider == MatmulProvider::reference || provider == MatmulProvider::blas,
      "{}: provider '{}' has no product of f32 matrices that is stored as bf16; use automatic, blas or reference", kOp,
      name_of(provider));
  switch (provider) {
#if defined(MYLOS_BLAS)
    case MatmulProvider::blas:
      return detail::blas_product(
          stream, p, detail::blas_needs_panels(p) ? need_workspace(workspace, 3 * detail::kPanelBytes) : nullptr);
#endif
#if defined(MYLOS_ONEDNN)
    case MatmulProvider::onednn:
      return detail::onednn_product(stream, p);
#endif
#if defined(MYLOS_CUBLASLT)
    case MatmulProvider::cublaslt:
      return detail::cublaslt_product(stream, p, options.provider == MatmulProvider::automatic,
                                      need_workspace(workspace, detail::kCublasLtWorkspace), workspace.bytes());
#endif
#if defined(MYLOS_TILES)
    case MatmulProvider::tiles:
      check(detail::tiles_take(p),
            "{}: provider 'tiles' takes bf16 in and out, rows of all operands at multiples of 16 bytes and N a "
            "multiple of 8; "
            "this is {} x {} -> {}; use automatic",
            kOp, a.describe(), b.describe(), c.describe());
      return detail::tiles_product(stream, p);
#endif
    default:
      return detail::reference_product(stream, p);
  }
}

void linear_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& workspace, const Tensor& y) {
  matmul(stream, x, w, {.b = Transpose::yes}, workspace, y);
}

void linear_forward_residual(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& residual,
                             const Tensor& workspace, const Tensor& y) {
  check(bool(residual), "{}: the residual is none; linear_forward() adds nothing", kOp);
  matmul(stream, x, w, {.b = Transpose::yes, .beta = 1.0f, .addend = residual}, workspace, y);
}

void linear_backward_input(const Stream& stream, const Tensor& dy, const Tensor& w, bool accumulate,
                           const Tensor& workspace, const Tensor& dx) {
  matmul(stream, dy, w, {.beta = accumulate ? 1.0f : 0.0f}, workspace, dx);
}

void linear_backward_weight(const Stream& stream, const Tensor& dy, const Tensor& x, bool accumulate,
                            const Tensor& workspace, const Tensor& dw) {
  matmul(stream, dy, x, {.a = Transpose::yes, .beta = accumulate ? 1.0f : 0.0f}, workspace, dw);
}

}  // namespace mylos::kernels
