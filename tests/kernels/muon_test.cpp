// Newton-Schulz: directly, through Gram matrices and in batches, against double precision, on spectra that are hard in bf16; symmetric products
// in halves and in tiles. The update around it is in optimizer_rules_test.cpp and tests/optimizer.
#include "kernels/muon/muon.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "kernel_test.hpp"
#include "kernels/muon/muon_device.hpp"
#include "kernels/muon/symmetric_product.hpp"
#include "kernels/muon/triangle.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

HostTensor product(const HostTensor& a, const HostTensor& b, bool transpose_b) {
  const std::int64_t n = b.shape[transpose_b ? 0 : 1];
  HostTensor c = zeros({a.shape[0], n});
  for (std::int64_t i = 0; i < a.shape[0]; ++i)
    for (std::int64_t l = 0; l < a.shape[1]; ++l)
      for (std::int64_t j = 0; j < n; ++j) c.at(i, j) += a.at(i, l) * (transpose_b ? b.at(j, l) : b.at(l, j));
  return c;
}

HostTensor transposed(const HostTensor& x) {
  HostTensor r = zeros({x.shape[1], x.shape[0]});
  for (std::int64_t i = 0; i < r.shape[0]; ++i)
    for (std::int64_t j = 0; j < r.shape[1]; ++j) r.at(i, j) = x.at(j, i);
  return r;
}

// As Jordan writes it.
HostTensor orthogonalized(const HostTensor& u, int iterations) {
  if (u.shape[0] > u.shape[1]) return transposed(orthogonalized(transposed(u), iterations));
  HostTensor x = u;
  double squares = 0;
  for (const double v : x.v) squares += v * v;
  for (double& v : x.v) v /= std::sqrt(squares) + 1e-7;
  for (int i = 0; i < iterations; ++i) {
    const HostTensor a = product(x, x, true);
    HostTensor p = product(a, a, false);
    for (std::int64_t e = 0; e < p.size(); ++e) p[e] = -4.7750 * a[e] + 2.0315 * p[e];
    HostTensor next = product(p, x, false);
    for (std::int64_t e = 0; e < next.size(); ++e) next[e] += 3.4445 * x[e];
    x = next;
  }
  return x;
}

// A dominating direction over a floor: most eigenvalues of the Gram matrix are below the rounding of its elements.
HostTensor nearly_rank_one(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const HostTensor left = random_normal({rows}, seed), right = random_normal({columns}, seed + 1);
  HostTensor x = random_normal({rows, columns}, seed + 2, 3e-2);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) x.at(i, j) += left[i] * right[j];
  return x;
}

// Matrices below each other.
void expect_symmetric(const HostTensor& t) {
  const std::int64_t s = t.shape[1];
  for (std::int64_t i = 0; i < t.shape[0]; ++i)
    for (std::int64_t j = 0; j < i % s; ++j)
      ASSERT_EQ(t.at(i, j), t.at(i / s * s + j, i % s)) << "rows " << i << ", column " << j;
}

HostTensor run(const Stream& stream, const HostTensor& u, DType dtype, int iterations) {
  const DeviceTensor x = to_device(stream, u, dtype);
  const std::int64_t count = u.shape.size() == 3 ? u.shape[0] : 1, rows = x.tensor.extent(-2),
                     columns = x.tensor.extent(-1);
  const DeviceTensor workspace = empty_device({k::orthogonalize_workspace(count, rows, columns, dtype)}, DType::u8);
  k::orthogonalize(stream, x.tensor, iterations, workspace.tensor);
  return to_host(stream, x.tensor);
}

using k::detail::Mirrored;
constexpr std::array kTiles{Mirrored::tiles, Mirrored::tiles_192, Mirrored::tiles_128};

TEST(NewtonSchulz, EqualsDoublePrecisionDirectlyAndThroughGramMatrices) {
  Stream stream;
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {64, 80}, {80, 64}, {64, 160}, {160, 64}, {32, 256}, {33, 97}, {1, 40}})
    for (const int iterations : {1, 2, 3, 4, 5, 7})
      for (const bool hard : {false, true}) {
        SCOPED_TRACE(
            fmt::format("[{}, {}] {} iterations{}", rows, columns, iterations, hard ? ", nearly rank one" : ""));
        const std::uint64_t seed = test_seed() + 11;
        const HostTensor u = hard ? nearly_rank_one(rows, columns, seed) : random_normal({rows, columns}, seed);
        EXPECT_TRUE(
            close(run(stream, u.rounded(DType::f32), DType::f32, iterations), orthogonalized(u, iterations), 5e-4));
        // Iterating X itself in bf16 is off by up to 0.02 and 0.1; through Gram matrices by up to twice as much. What diverges is off by more than 1.
        const HostTensor v = u.rounded(DType::bf16);
        EXPECT_TRUE(close(run(stream, v, DType::bf16, iterations), orthogonalized(v, iterations), hard ? 0.2 : 0.08));
      }
}

TEST(NewtonSchulz, ABatchIsItsMatricesOneByOne) {
  Stream stream;
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{48, 48}, {32, 96}, {96, 32}, {17, 51}}) {
    SCOPED_TRACE(fmt::format("[{}, {}]", rows, columns));
    const std::int64_t size = rows * columns;
    HostTensor all = random_normal({3, rows, columns}, test_seed() + 3);
    for (std::int64_t i = 0; i < size; ++i) all[size + i] *= 1e-6;  // each has a norm of its own
    for (std::int64_t i = 0; i < size; ++i) all[2 * size + i] = 0.0;
    const HostTensor got = run(stream, all.rounded(DType::f32), DType::f32, 5);
    for (std::int64_t m = 0; m < 3; ++m) {
      HostTensor one = zeros({rows, columns}), part = one;
      std::copy_n(all.v.begin() + m * size, size, one.v.begin());
      std::copy_n(got.v.begin() + m * size, size, part.v.begin());
      if (m == 2)
        ASSERT_EQ(part.v, one.v) << "zeros stay zeros";
      else
        EXPECT_TRUE(close(part, run(stream, one.rounded(DType::f32), DType::f32, 5), 1e-4)) << m;
    }
  }
}

TEST(NewtonSchulz, FlopsAreThoseOfTheCheaperWay) {
  EXPECT_EQ(k::orthogonalize_flops(10, 10, 5), 5.0 * (4 * 1000 + 2 * 1000));
  EXPECT_EQ(k::orthogonalize_flops(10, 30, 5), 8.0 * 3000 + 28.0 * 1000);
  EXPECT_EQ(k::orthogonalize_flops(30, 10, 1), 4.0 * 3000 + 2.0 * 1000);
}

TEST(SymmetricProduct, InHalvesIsTheWholeAndSymmetricToTheBit) {
  Stream stream;
  const DeviceTensor workspace = empty_device({k::matmul_workspace()}, DType::u8);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t s : {2, 96, 200})
      for (const bool tall : {false, true}) {
        SCOPED_TRACE(fmt::format("{} side {} {}", name_of(dtype), s, tall ? "tall" : "wide"));
        const HostTensor x = random_normal({s, 72}, test_seed() + 4).rounded(dtype),
                         z = product(x, x, true).rounded(dtype);
        const DeviceTensor dx = to_device(stream, tall ? transposed(x) : x, dtype), dz = to_device(stream, z, dtype),
                           dc = empty_device({s, s}, dtype);
        using T = k::Transpose;
        k::detail::symmetric_product(
            stream, dx.tensor, dx.tensor,
            {.a = tall ? T::yes : T::no, .b = tall ? T::no : T::yes, .alpha = 2.0f, .beta = 0.5f, .addend = dz.tensor},
            {}, Mirrored::halves, workspace.tensor, dc.tensor);
        HostTensor want = product(x, x, true);
        for (std::int64_t i = 0; i < want.size(); ++i) want[i] = 2.0 * want[i] + 0.5 * z[i];
        const HostTensor got = to_host(stream, dc.tensor);
        EXPECT_TRUE(close(got, want, dtype == DType::bf16 ? 4e-3 : 1e-6, 1.0));
        for (std::int64_t i = 0; i < s / 2; ++i)
          for (std::int64_t j = s / 2; j < s; ++j) ASSERT_EQ(got.at(i, j), got.at(j, i)) << i << ", " << j;
      }
}

TEST(SymmetricProduct, InTilesIsTheWholeAndSymmetricToTheBit) {
  Stream stream;
  const DeviceTensor workspace = empty_device({k::matmul_workspace()}, DType::u8);
  constexpr std::int64_t kCount = 2;
  for (const auto& [s, l] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 64}, {128, 320}, {384, 192}, {640, 64}})
    for (const auto& [beta, tall] : {std::pair{0.0f, false}, {-0.5f, false}, {0.0f, true}, {-0.5f, true}}) {
      SCOPED_TRACE(fmt::format("side {} length {} beta {}{}", s, l, beta, tall ? ", tall" : ""));
      const HostTensor x = random_normal({kCount * s, l}, test_seed() + 6).rounded(DType::bf16);
      HostTensor z = random_normal({kCount * s, s}, test_seed() + 7).rounded(DType::bf16);
      for (std::int64_t i = 0; i < kCount * s; ++i)
        for (std::int64_t j = 0; j < i % s; ++j) z.at(i, j) = z.at(i / s * s + j, i % s);
      HostTensor stored = x;
      if (tall) {
        stored.shape = {kCount * l, s};
        for (std::int64_t i = 0; i < kCount * s; ++i)
          for (std::int64_t e = 0; e < l; ++e) stored.at(i / s * l + e, i % s) = x.at(i, e);
      }
      const DeviceTensor dx = to_device(stream, stored, DType::bf16), dz = to_device(stream, z, DType::bf16),
                         dc = empty_device({kCount * s, s}, DType::bf16);
      const auto one = [&](const DeviceTensor& t) { return t.tensor.slice(0, 0, t.tensor.extent(0) / kCount); };
      const k::Transpose no = k::Transpose::no, yes = k::Transpose::yes;
      k::MatmulOptions options{.a = tall ? yes : no, .b = tall ? no : yes, .alpha = 2.0f, .beta = beta};
      if (beta != 0) options.addend = one(dz);
      const k::Batch batch{.count = kCount, .a = s * l, .b = s * l, .c = s * s, .z = s * s};
      const auto how = k::detail::best_mirroring(one(dx), one(dx), options, batch, one(dc));
      if (how != Mirrored::tiles) GTEST_SKIP() << "tiles are for Hopper";
      HostTensor want = zeros({kCount * s, s});
      for (std::int64_t i = 0; i < kCount * s; ++i)
        for (std::int64_t j = 0; j < s; ++j) {
          double sum = 0;
          for (std::int64_t e = 0; e < l; ++e) sum += x.at(i, e) * x.at(i / s * s + j, e);
          want.at(i, j) = 2.0 * sum + double(beta) * z.at(i, j);
        }
      for (const Mirrored tiles : kTiles) {
        SCOPED_TRACE(fmt::format("way {}", int(tiles)));
        fill_zero(stream, dc.tensor);
        k::detail::symmetric_product(stream, one(dx), one(dx), options, batch, tiles, workspace.tensor, one(dc));
        const HostTensor got = to_host(stream, dc.tensor);
        EXPECT_TRUE(close(got, want, 4e-3, 1.0));
        expect_symmetric(got);
      }
    }
}

// More tiles than a GPU has blocks for, so that blocks take several, and operands that commute but are not the same: circulants.
TEST(SymmetricProduct, InTilesOfTwoMatricesIsSymmetricToTheBitAndTheSameAgain) {
  Stream stream;
  const DeviceTensor workspace = empty_device({k::matmul_workspace()}, DType::u8);
  constexpr std::int64_t kCount = 16, s = 768;
  const DeviceTensor c = empty_device({kCount * s, s}, DType::bf16), any = empty_device({s, s}, DType::bf16);
  const auto one = [&](const DeviceTensor& t) { return t.tensor.slice(0, 0, s); };
  const k::Batch batch{.count = kCount, .a = s * s, .b = s * s, .c = s * s, .z = s * s};
  k::MatmulOptions options{.b = k::Transpose::yes, .alpha = 0.5f, .beta = 3.0f, .addend = any.tensor};
  const auto how = k::detail::best_mirroring(any.tensor, any.tensor, options, batch, one(c));
  if (how != Mirrored::tiles) GTEST_SKIP() << "tiles are for Hopper";
  const auto circulants = [&](std::uint64_t seed) {
    const HostTensor f = random_normal({kCount, s}, seed).rounded(DType::bf16);
    HostTensor t = zeros({kCount * s, s});
    for (std::int64_t i = 0; i < kCount * s; ++i)
      for (std::int64_t j = 0; j < s; ++j) {
        const std::int64_t apart = std::abs(i % s - j);
        t.at(i, j) = f.at(i / s, std::min(apart, s - apart));
      }
    return to_device(stream, t, DType::bf16);
  };
  const DeviceTensor a = circulants(test_seed() + 21), b = circulants(test_seed() + 22),
                     z = circulants(test_seed() + 23);
  options.addend = one(z);
  const auto product = [&](Mirrored mirrored) {
    fill_zero(stream, c.tensor);
    k::detail::symmetric_product(stream, one(a), one(b), options, batch, mirrored, workspace.tensor, one(c));
    return to_host(stream, c.tensor);
  };
  const HostTensor want = product(Mirrored::no);
  for (const Mirrored tiles : kTiles) {
    SCOPED_TRACE(fmt::format("way {}", int(tiles)));
    const HostTensor got = product(tiles);
    EXPECT_TRUE(close(got, want, 8e-3, 1.0));
    expect_symmetric(got);
    for (int again = 0; again < 3; ++again) EXPECT_EQ(product(tiles).v, got.v);
  }
}

TEST(SymmetricProduct, PairsOfTilesCoverTheTriangleOnce) {
  for (int n = 1; n < 40; ++n) {
    std::vector<int> times(std::size_t(n) * std::size_t(n));
    const auto add = [&](int i, int j) { ++times[std::size_t(std::max(i, j) * n + std::min(i, j))]; };
    for (int p = 0; p < k::detail::pairs_of_triangle(n); ++p) {
      const k::detail::TilePair pair = k::detail::pair_of_triangle(n, p);
      ASSERT_LT(std::max({pair.first, pair.second, pair.column}), n);
      add(pair.first, pair.column);
      if (pair.second != pair.first) add(pair.second, pair.column);
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) ASSERT_EQ(times[std::size_t(i * n + j)], 1) << n << ": " << i << ", " << j;
  }
}

// Sides that a GPU takes tiles for, so that the whole iteration goes through them.
TEST(NewtonSchulz, TilesOfAGpuGiveTheSame) {
  Stream stream;
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 128}, {128, 320}, {320, 128}}) {
    SCOPED_TRACE(fmt::format("[{}, {}]", rows, columns));
    HostTensor all = random_normal({2, rows, columns}, test_seed() + 8).rounded(DType::bf16);
    const std::int64_t size = rows * columns;
    std::vector<HostTensor> want;
    for (std::int64_t m = 0; m < 2; ++m) {
      HostTensor one = zeros({rows, columns});
      std::copy_n(all.v.begin() + m * size, size, one.v.begin());
      want.push_back(orthogonalized(one, 5));
    }
    const HostTensor got = run(stream, all, DType::bf16, 5);
    for (std::int64_t m = 0; m < 2; ++m) {
      HostTensor part = zeros({rows, columns});
      std::copy_n(got.v.begin() + m * size, size, part.v.begin());
      EXPECT_TRUE(close(part, want[std::size_t(m)], 0.08)) << m;
    }
  }
}

}  // namespace
}  // namespace mylos
