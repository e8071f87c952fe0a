#include <algorithm>
#include <utility>

#include "kernels/detail/checks.hpp"
#include "kernels/muon/muon.hpp"
#include "kernels/muon/muon_device.hpp"
#include "kernels/muon/symmetric_product.hpp"
#include "kernels/norm/norm.hpp"

namespace mylos::kernels {
namespace {

constexpr const char* kOp = "orthogonalize";

// Jordan's quintic: steepest at zero of those that keep singular values in a band around one.
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

// From this ratio of its sides on a matrix is iterated through its Gram matrix.
constexpr std::int64_t kThroughGramFrom = 2;

// Iterations between two looks at the matrix itself. Rounding makes eigenvalues of the Gram matrix that should be about 0 negative, and
// each iteration multiplies them by a²: in bf16 three iterations are as exact as iterating the matrix, five diverge.
constexpr int kMostInFirst = 3, kMostInOthers = 2;

bool goes_through_gram(std::int64_t rows, std::int64_t columns) {
  return std::max(rows, columns) >= kThroughGramFrom * std::min(rows, columns);
}

// f(n) for each run of n iterations.
template <class F>
void each_run(int iterations, const F& f) {
  for (int most = kMostInFirst; iterations > 0; most = kMostInOthers) {
    const int n = std::min(iterations, most);
    f(n);
    iterations -= n;
  }
}

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
  Tensor other, gram, polynomial, half, q, sums, squares, product;
  std::int64_t bytes;
};

Parts lay_out(std::int64_t count, std::int64_t rows, std::int64_t columns, DType dtype, const Tensor& memory) {
  const std::int64_t s = std::min(rows, columns);
  const bool gram = goes_through_gram(rows, columns);
  Workspace w(memory);
  Parts p{.other = w.take(dtype, {count, rows, columns}),
          .gram = w.take(dtype, {count, s, s}),
          .polynomial = w.take(dtype, {count, s, s}),
          .half = gram ? w.take(dtype, {count, s, s}) : Tensor(),
          .q = gram ? w.take(dtype, {count, s, s}) : Tensor(),
          .sums = w.take(DType::f32, {count, rows}),
          .squares = w.take(DType::f64, {count}),
          .product = w.take(DType::u8, {matmul_workspace()}),
          .bytes = 0};
  p.bytes = w.used();
  return p;
}

// The products of one orthogonalisation. Matrices are [n, R, C] or [n, s, s]; products name the first of each.
class Iteration {
 public:
  Iteration(const Stream& stream, const Parts& parts, const Tensor& u)
      : stream_(stream),
        parts_(parts),
        count_(u.extent(0)),
        side_(std::min(u.extent(1), u.extent(2))),
        wide_(u.extent(1) <= u.extent(2)) {}

  // x = p(p(...)) as it is written: three products an iteration.
  void direct(Tensor& x, Tensor& next) {
    gram(x);
    symmetric(parts_.gram, parts_.gram, kC, kB, parts_.gram, parts_.polynomial);
    multiply(parts_.polynomial, x, kA, next);
    std::swap(x, next);
  }

  // The same for n iterations: with A = X Xᵀ all of them are polynomials in A. P = b A + c A², the next A is (a + P) A (a + P), and X is
  // multiplied once by all a + P. They commute but for rounding; that of the later ones must not meet the large singular values which the earlier
  // ones have brought down. So their order is kept: q is the product from the first to the last, X q or qᵀ X.
  void through_gram(int n, Tensor& x, Tensor& next) {
    gram(x);
    Tensor &a = parts_.gram, &p = parts_.polynomial, &half = parts_.half, &q = parts_.q;
    symmetric(a, a, kC, kB, a, q);
    for (int i = 1; i < n; ++i) {
      const Tensor& factor = i == 1 ? q : p;
      symmetric(factor, a, 1.0f, kA, a, half);
      symmetric(half, factor, 1.0f, kA, half, a);
      if (i == 1)
        device::add_identity(stream_, kA, q);
      else
        accumulate();
      symmetric(a, a, kC, kB, a, p);
    }
    if (n == 1)
      device::add_identity(stream_, kA, q);
    else
      accumulate();
    multiply(q, x, 0.0f, next);
    std::swap(x, next);
  }

 private:
  static Tensor first(const Tensor& t) { return t.slice(0, 0, 1).reshape({t.extent(1), t.extent(2)}); }
  static std::int64_t step(const Tensor& t) { return t.extent(1) * t.extent(2); }

  // q = q (a + P)
  void accumulate() {
    matmul_batched(stream_, first(parts_.q), first(parts_.polynomial),
                   {.b = Transpose::yes, .beta = kA, .addend = first(parts_.q)}, small(), parts_.product,
                   first(parts_.half));
    std::swap(parts_.q, parts_.half);
  }

  void gram(const Tensor& x) {
    const Transpose no = Transpose::no, yes = Transpose::yes;
    mirrored(first(x), first(x), {.a = wide_ ? no : yes, .b = wide_ ? yes : no},
             {.count = count_, .a = step(x), .b = step(x), .c = side_ * side_, .z = 0}, first(parts_.gram));
  }

  // c = alpha · a · b + beta · z of symmetric matrices that commute. b counts as its own transpose: then the rows of both are read in runs.
  void symmetric(const Tensor& a, const Tensor& b, float alpha, float beta, const Tensor& z, const Tensor& c) {
    mirrored(first(a), first(b), {.b = Transpose::yes, .alpha = alpha, .beta = beta, .addend = first(z)}, small(),
             first(c));
  }

  void mirrored(const Tensor& a, const Tensor& b, const MatmulOptions& options, const Batch& batch, const Tensor& c) {
    detail::symmetric_product(stream_, a, b, options, batch, detail::best_mirroring(a, b, options, batch, c),
                              parts_.product, c);
  }

  Batch small() const {
    const std::int64_t size = side_ * side_;
    return {.count = count_, .a = size, .b = size, .c = size, .z = size};
  }

  // next = pᵀ · x + beta · x; x · p + beta · x for tall matrices.
  void multiply(const Tensor& p, const Tensor& x, float beta, const Tensor& next) {
    const std::int64_t square = side_ * side_, large = step(x);
    const MatmulOptions options{.a = wide_ ? Transpose::yes : Transpose::no, .beta = beta, .addend = first(x)};
    const Batch batch{
        .count = count_, .a = wide_ ? square : large, .b = wide_ ? large : square, .c = large, .z = large};
    matmul_batched(stream_, first(wide_ ? p : x), first(wide_ ? x : p), options, batch, parts_.product, first(next));
  }

  const Stream& stream_;
  Parts parts_;
  std::int64_t count_, side_;
  bool wide_;
};

// Products of [s, s] matrices, and of [s, s] or [R, C] with [R, C].
struct Products {
  double small = 0, large = 0;
};
Products products(std::int64_t rows, std::int64_t columns, int iterations) {
  if (!goes_through_gram(rows, columns)) return {.small = double(iterations), .large = 2.0 * iterations};
  Products p;
  each_run(iterations, [&](int n) {
    p.small += 4.0 * n - 3.0;
    p.large += 2.0;
  });
  return p;
}

}  // namespace

std::int64_t orthogonalize_workspace(std::int64_t count, std::int64_t rows, std::int64_t columns, DType dtype) {
  return lay_out(count, rows, columns, dtype, {}).bytes;
}

double orthogonalize_flops(std::int64_t rows, std::int64_t columns, int iterations) {
  const double s = double(std::min(rows, columns));
  const Products p = products(rows, columns, iterations);
  return p.large * 2.0 * double(rows) * double(columns) * s + p.small * 2.0 * s * s * s;
}

double orthogonalize_bytes(std::int64_t rows, std::int64_t columns, DType dtype, int iterations) {
  const double s = double(std::min(rows, columns)), matrix = double(rows) * double(columns);
  const Products p = products(rows, columns, iterations);
  // A Gram matrix is written from X; then it, X and the next X; a small product has two operands and a result. Before: read for the norm,
  // read and written for the scale.
  const double elements = p.large / 2.0 * (3.0 * matrix + 2.0 * s * s) + p.small * 2.0 * s * s + 3.0 * matrix;
  return double(size_of(dtype)) * elements;
}

void orthogonalize(const Stream& stream, const Tensor& u, int iterations, const Tensor& workspace) {
  expect_float(kOp, "u", u);
  expect_dense(kOp, "u", u);
  check(u.rank() == 2 || u.rank() == 3, "{}: u is {}, expected a matrix, or a batch of them", kOp, u.describe());
  check(iterations >= 1, "{}: {} iterations of Newton-Schulz; there must be at least one", kOp, iterations);
  if (u.size() == 0) return;
  const std::int64_t rows = u.extent(-2), columns = u.extent(-1), count = u.size() / (rows * columns);
  expect_workspace(kOp, workspace, orthogonalize_workspace(count, rows, columns, u.dtype()));
  const Parts w = lay_out(count, rows, columns, u.dtype(), workspace);
  const Tensor all = u.reshape({count, rows, columns});
  device::row_squares(stream, all, w.sums);
  sum_rows(stream, w.sums, w.squares);

  const bool gram = goes_through_gram(rows, columns);
  int swaps = gram ? 0 : iterations;
  if (gram) each_run(iterations, [&](int) { ++swaps; });
  // Each swap goes from one matrix to the other; the last one must end in u.
  Tensor x = swaps % 2 != 0 ? w.other : all, next = swaps % 2 != 0 ? all : w.other;
  device::divide_by_norms(stream, w.squares, all, x);
  Iteration iteration(stream, w, all);
  if (gram) {
    each_run(iterations, [&](int n) { iteration.through_gram(n, x, next); });
  } else {
    for (int i = 0; i < iterations; ++i) iteration.direct(x, next);
  }
}

}  // namespace mylos::kernels
