// Products by tiles of our own for Hopper, against double precision and the portable product; skipped where nothing has them.
#include "kernels/matmul/tiles.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "kernels/matmul/matmul.hpp"
#include "support/host_tensor.hpp"
#include "tensor/async.hpp"

namespace mylos::kernels {
namespace {

using test::DeviceTensor;
using test::HostTensor;

struct Queue : Stream {
  DeviceTensor workspace = test::empty_device({matmul_workspace()}, DType::u8);
};

MatmulOptions tiles(bool ta, bool tb, float alpha, float beta) {
  return {.a = ta ? Transpose::yes : Transpose::no,
          .b = tb ? Transpose::yes : Transpose::no,
          .alpha = alpha,
          .beta = beta,
          .provider = MatmulProvider::tiles};
}

// Sums of l terms as tensor cores add them (matmul_test.cpp), then one rounding to bf16.
double tolerance(std::int64_t l) { return 4e-3 + double(l) / 16 * 0x1p-24; }

class Tiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_provider(MatmulProvider::tiles, DType::bf16)) GTEST_SKIP() << "no tiles in this build or on this device";
  }
};

// Parts of a tile, whole tiles, several pairs of blocks, slices that end early, and more slices than stages.
TEST_F(Tiles, EqualDoublePrecisionForEveryTranspositionAndScale) {
  Queue run;
  std::uint64_t seed = test::test_seed();
  for (const auto& [m, n, l] : std::vector<std::array<std::int64_t, 3>>{
           {8, 8, 8}, {128, 256, 64}, {136, 264, 72}, {40, 8, 640}, {296, 520, 328}, {520, 1032, 136}})
    for (int transposes = 0; transposes < 4; ++transposes)
      for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {1.0f, 1.0f}, {-0.5f, 0.25f}}) {
        const bool ta = transposes & 1, tb = transposes & 2;
        const HostTensor
            a = test::random_normal(ta ? std::vector{l, m} : std::vector{m, l}, ++seed).rounded(DType::bf16),
            b = test::random_normal(tb ? std::vector{n, l} : std::vector{l, n}, ++seed).rounded(DType::bf16),
            c0 = test::random_normal({m, n}, ++seed).rounded(DType::bf16);
        const DeviceTensor da = to_device(run, a, DType::bf16), db = to_device(run, b, DType::bf16);
        const DeviceTensor dc = beta == 0 ? test::empty_device({m, n}, DType::bf16) : to_device(run, c0, DType::bf16);
        matmul(run, da.tensor, db.tensor, tiles(ta, tb, alpha, beta), run.workspace.tensor, dc.tensor);
        HostTensor want = c0;
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < l; ++k) sum += (ta ? a.at(k, i) : a.at(i, k)) * (tb ? b.at(j, k) : b.at(k, j));
            want.at(i, j) = alpha * sum + (beta == 0 ? 0.0 : beta * c0.at(i, j));
          }
        EXPECT_TRUE(
            test::close(test::to_host(run, dc.tensor), want, tolerance(l), std::abs(alpha) * std::sqrt(double(l))))
            << m << " x " << n << " x " << l << " transposes " << transposes << " alpha " << alpha << " beta " << beta;
      }
}

TEST_F(Tiles, RowsMayBeOddInNumberAndStridedAndNothingAroundThemIsTouched) {
  Queue run;
  const std::int64_t m = 261, n = 120, l = 203, left = 8, right = 16 - 203 % 8;
  const std::uint64_t seed = test::test_seed() + 1000;
  const DType t = DType::bf16;
  const DeviceTensor a = to_device(run, test::random_normal({m, left + l + right - 8}, seed), t),
                     b = to_device(run, test::random_normal({n, left + l + right - 8}, seed + 1), t),
                     z = to_device(run, test::random_normal({m, left + n}, seed + 2), t);
  const HostTensor around = test::random_normal({m + 1, left + n + 8}, seed + 3).rounded(t);
  const DeviceTensor c = to_device(run, around, t), want = test::empty_device({m, n}, t);
  const Tensor x = a.tensor.slice(1, left, left + l), y = b.tensor.slice(1, left, left + l),
               add = z.tensor.slice(1, left, left + n);
  MatmulOptions options = tiles(false, true, 1.5f, 0.5f);
  options.addend = add;
  matmul(run, x, y, options, run.workspace.tensor, c.tensor.slice(0, 0, m).slice(1, left, left + n));
  options.provider = MatmulProvider::reference;
  matmul(run, x, y, options, run.workspace.tensor, want.tensor);
  const HostTensor got = test::to_host(run, c.tensor), right_one = test::to_host(run, want.tensor);
  for (std::int64_t i = 0; i <= m; ++i)
    for (std::int64_t j = 0; j < left + n + 8; ++j) {
      if (i < m && j >= left && j < left + n) {
        ASSERT_NEAR(got.at(i, j), right_one.at(i, j - left), 8e-3 * std::abs(right_one.at(i, j - left)) + 0.05)
            << i << ", " << j;
      } else {
        ASSERT_EQ(got.at(i, j), around.at(i, j)) << i << ", " << j;
      }
    }
}

#if defined(MYLOS_TILES)
// More tiles than run at once, and schedules of every kind: each gives the same bits.
TEST_F(Tiles, EveryScheduleGivesTheSameBits) {
  Queue run;
  const std::int64_t m = 2824, n = 3080, l = 448;
  const DType t = DType::bf16;
  const DeviceTensor a = to_device(run, test::random_normal({m, l}, test::test_seed() + 1), t),
                     b = to_device(run, test::random_normal({n, l}, test::test_seed() + 2), t),
                     c = test::empty_device({m, n}, t), want = test::empty_device({m, n}, t);
  MatmulOptions options = tiles(false, true, 1, 0);
  const detail::Product p = detail::checked_product(a.tensor, b.tensor, options, c.tensor);
  std::vector<std::uint8_t> first;
  for (const detail::TileOptions& how :
       std::vector<detail::TileOptions>{{}, {8, 0}, {8, 1}, {8, 3}, {1, 2}, {3, 2}, {64, 2}, {}}) {
    detail::tiles_product(run, p, how);
    const std::vector<std::uint8_t> bits = test::raw_bytes(run, c.tensor);
    if (first.empty()) first = bits;
    ASSERT_EQ(bits, first) << "strip " << how.strip << ", lag " << how.lag;
  }
  options.provider = MatmulProvider::reference;
  matmul(run, a.tensor, b.tensor, options, run.workspace.tensor, want.tensor);
  EXPECT_TRUE(test::close(test::to_host(run, c.tensor), test::to_host(run, want.tensor), 2 * tolerance(l),
                          std::sqrt(double(l))));
}

#endif

TEST_F(Tiles, RunFromARecordingToTheBit) {
  Queue run;
  const DType t = DType::bf16;
  const DeviceTensor a = to_device(run, test::random_normal({296, 200}, test::test_seed()), t),
                     b = to_device(run, test::random_normal({200, 264}, test::test_seed() + 1), t),
                     c = test::empty_device({296, 264}, t);
  const auto work = [&] { matmul(run, a.tensor, b.tensor, tiles(false, false, 1, 0), run.workspace.tensor, c.tensor); };
  work();
  const std::vector<std::uint8_t> want = test::raw_bytes(run, c.tensor);
  const Graph graph(run, work);
  fill_zero(run, c.tensor);
  graph.launch(run);
  EXPECT_EQ(test::raw_bytes(run, c.tensor), want);
}

TEST(TilesAnywhere, SayWhatTheyDoNotTake) {
  Queue run;
  const DType t = DType::bf16;
  const DeviceTensor a = test::empty_device({16, 24}, t), b = test::empty_device({24, 20}, t),
                     c = test::empty_device({16, 20}, t);
  EXPECT_THROW(matmul(run, a.tensor, b.tensor, tiles(false, false, 1, 0), run.workspace.tensor, c.tensor), Error);
}

}  // namespace
}  // namespace mylos::kernels
