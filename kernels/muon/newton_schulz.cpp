#include <algorithm>
#include <utility>

#include "kernels/detail/checks.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/muon/muon.hpp"
#include "kernels/muon/muon_device.hpp"
#include "kernels/norm/norm.hpp"

namespace mylos::kernels {
namespace {

constexpr const char* kOp = "orthogonalize";

// Jordan's quintic: steepest at zero of those that keep singular values in a band around one.
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

// Takes tensors from the workspace one after another, 256 bytes apart at least.
class Workspace {
 public:
  explicit Workspace(const Tensor& memory) : memory_(memory) {}
  Tensor take(DType dtype, std::initializer_list<std::int64_t> extents) {
    std::byte* at = memory_ ? static_cast<std::byte*>(memory_.data()) + used_ : nullptr;
    const Tensor t(at, dtype, extents);
    used_ += (t.bytes() + 255) / 256 * 256;
    return t;
  }
  std::int64_t used() const { return used_; }

 private:
  Tensor memory_;
  std::int64_t used_ = 0;
};

struct Parts {
  Tensor other, gram, polynomial, squares, partial, product;
  std::int64_t bytes;
};

Parts lay_out(std::int64_t rows, std::int64_t columns, DType dtype, const Tensor& memory) {
  const std::int64_t s = std::min(rows, columns);
  Workspace w(memory);
  Parts p{.other = w.take(dtype, {rows, columns}),
          .gram = w.take(dtype, {s, s}),
          .polynomial = w.take(dtype, {s, s}),
          .squares = w.take(DType::f64, {1}),
          .partial = w.take(DType::u8, {sum_workspace()}),
          .product = w.take(DType::u8, {matmul_workspace()}),
          .bytes = 0};
  p.bytes = w.used();
  return p;
}

}  // namespace

std::int64_t orthogonalize_workspace(std::int64_t rows, std::int64_t columns, DType dtype) {
  return lay_out(rows, columns, dtype, {}).bytes;
}

double orthogonalize_flops(std::int64_t rows, std::int64_t columns, int iterations) {
  const double s = double(std::min(rows, columns));
  return double(iterations) * (4.0 * double(rows) * double(columns) * s + 2.0 * s * s * s);
}

double orthogonalize_bytes(std::int64_t rows, std::int64_t columns, DType dtype, int iterations) {
  const double s = double(std::min(rows, columns)), matrix = double(rows) * double(columns);
  // X and A; A and the polynomial; polynomial, X and the next X. Before: read for the norm, read and written for the scale.
  return double(size_of(dtype)) * (double(iterations) * (3.0 * matrix + 4.0 * s * s) + 3.0 * matrix);
}

void orthogonalize(const Stream& stream, const Tensor& u, int iterations, const Tensor& workspace) {
  expect_float(kOp, "u", u);
  expect_dense(kOp, "u", u);
  check(u.rank() == 2, "{}: u is {}, expected a matrix", kOp, u.describe());
  check(iterations >= 1, "{}: {} iterations of Newton-Schulz; there must be at least one", kOp, iterations);
  const std::int64_t rows = u.extent(0), columns = u.extent(1);
  expect_workspace(kOp, workspace, orthogonalize_workspace(rows, columns, u.dtype()));
  const Parts w = lay_out(rows, columns, u.dtype(), workspace);
  sum_of_squares(stream, u, w.partial, w.squares);
  // Each iteration goes from one matrix to the other; the last one must end in u.
  const bool odd = iterations % 2 != 0;
  Tensor x = odd ? w.other : u, next = odd ? u : w.other;
  device::divide_by_norm(stream, w.squares, u, x);

  const bool wide = rows <= columns;
  for (int i = 0; i < iterations; ++i) {
    matmul(stream, x, x, {.a = wide ? Transpose::no : Transpose::yes, .b = wide ? Transpose::yes : Transpose::no},
           w.product, w.gram);
    matmul(stream, w.gram, w.gram, {.alpha = kC, .beta = kB, .addend = w.gram}, w.product, w.polynomial);
    const MatmulOptions step{.beta = kA, .addend = x};
    if (wide) {
      matmul(stream, w.polynomial, x, step, w.product, next);
    } else {
      matmul(stream, x, w.polynomial, step, w.product, next);
    }
    std::swap(x, next);
  }
}

}  // namespace mylos::kernels
