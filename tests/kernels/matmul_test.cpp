#include "kernels/matmul/matmul.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "support/errors.hpp"
#include "support/host_tensor.hpp"
#include "tensor/async.hpp"

namespace mylos::kernels {
namespace {

using test::DeviceTensor;
using test::HostTensor;

const MatmulProvider kProviders[] = {MatmulProvider::automatic, MatmulProvider::reference, MatmulProvider::blas,
                                     MatmulProvider::onednn, MatmulProvider::cublaslt};

struct Case {
  std::int64_t m, n, l;
};
// Odd extents, single rows and columns, whole tiles, and products that cross the 1024 of a conversion panel.
const Case kCases[] = {{1, 1, 1},      {1, 37, 65},  {33, 1, 7},   {63, 65, 31}, {64, 128, 96},
                       {129, 131, 97}, {3, 1031, 5}, {1030, 2, 5}, {3, 2, 2060}};

// Rows of op(A), and columns of op(B) as rows, so that the sums below run over neighbours.
HostTensor laid_out(const HostTensor& x, bool transpose) {
  if (!transpose) return x;
  HostTensor r = test::zeros({x.shape[1], x.shape[0]});
  for (std::int64_t i = 0; i < r.shape[0]; ++i)
    for (std::int64_t j = 0; j < r.shape[1]; ++j) r.at(i, j) = x.at(j, i);
  return r;
}

HostTensor product(const HostTensor& a, bool ta, const HostTensor& b, bool tb, double alpha, double beta,
                   const HostTensor& c0) {
  const HostTensor rows = laid_out(a, ta), columns = laid_out(b, !tb);
  HostTensor c = c0;
  for (std::int64_t i = 0; i < c.shape[0]; ++i)
    for (std::int64_t j = 0; j < c.shape[1]; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < rows.shape[1]; ++k) sum += rows.at(i, k) * columns.at(j, k);
      c.at(i, j) = alpha * sum + (beta == 0 ? 0.0 : beta * c0.at(i, j));
    }
  return c;
}

// fp32 sums of l terms; then one rounding to C's dtype.
double tolerance(DType out, std::int64_t l) { return out == DType::bf16 ? 4e-3 : 4e-7 + 4e-8 * std::sqrt(double(l)); }

// Tensor cores add a group of 16 products to the fp32 sum by cutting bits off, half a unit on average and always towards
// zero, so that those errors add up instead of cancelling.
double tolerance(DType in, DType out, std::int64_t l) {
  const double truncation = device_info().is_gpu && in == DType::bf16 ? double(l) / 16 * 0x1p-24 : 0.0;
  return tolerance(out, l) + truncation;
}

// The libraries do not narrow f32 products to bf16; matmul.hpp says who does.
bool offers(MatmulProvider provider, DType in, DType out) {
  const bool library = provider == MatmulProvider::onednn || provider == MatmulProvider::cublaslt;
  return has_provider(provider, in) && !(library && in == DType::f32 && out == DType::bf16);
}

struct Queue : Stream {
  DeviceTensor workspace = test::empty_device({matmul_workspace()}, DType::u8);
};

class Matmul : public ::testing::TestWithParam<std::tuple<MatmulProvider, DType, DType>> {};

TEST_P(Matmul, EqualsDoublePrecisionForEveryTranspositionAndScale) {
  const auto [provider, in, out] = GetParam();
  if (!offers(provider, in, out)) GTEST_SKIP() << "no such product of this provider here";
  Queue run;
  std::uint64_t seed = test::test_seed();
  for (const Case& s : kCases)
    for (int transposes = 0; transposes < 4; ++transposes)
      for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {1.0f, 1.0f}, {-0.5f, 0.25f}}) {
        const bool ta = transposes & 1, tb = transposes & 2;
        const HostTensor a =
            test::random_normal(ta ? std::vector{s.l, s.m} : std::vector{s.m, s.l}, ++seed).rounded(in);
        const HostTensor b =
            test::random_normal(tb ? std::vector{s.n, s.l} : std::vector{s.l, s.n}, ++seed).rounded(in);
        const HostTensor c0 = test::random_normal({s.m, s.n}, ++seed).rounded(out);
        const DeviceTensor da = to_device(run, a, in), db = to_device(run, b, in);
        // beta 0 must not read C: it starts as NaN then.
        const DeviceTensor dc = beta == 0 ? test::empty_device({s.m, s.n}, out) : to_device(run, c0, out);
        matmul(run, da.tensor, db.tensor,
               {.a = ta ? Transpose::yes : Transpose::no,
                .b = tb ? Transpose::yes : Transpose::no,
                .alpha = alpha,
                .beta = beta,
                .provider = provider},
               run.workspace.tensor, dc.tensor);
        EXPECT_TRUE(test::close(test::to_host(run, dc.tensor), product(a, ta, b, tb, alpha, beta, c0),
                                tolerance(in, out, s.l), std::abs(alpha) * std::sqrt(double(s.l))))
            << s.m << " x " << s.n << " x " << s.l << " transposes " << transposes << " alpha " << alpha << " beta "
            << beta;
      }
}

// oneDNN's sgemm keeps data below its stack pointer, where a signal's frame would land.
TEST(MatmulAndSignals, AWishToStopLeavesProductsAlone) {
  if (!has_provider(MatmulProvider::onednn, DType::f32)) GTEST_SKIP() << "no oneDNN in this build";
  constexpr std::int64_t kSide = 384;
  Queue run;
  const HostTensor a = test::random_normal({kSide, kSide}, test::test_seed() + 2000).rounded(DType::f32);
  const DeviceTensor da = to_device(run, a, DType::f32), dc = test::empty_device({kSide, kSide}, DType::f32);
  const auto product_of = [&] {
    matmul(run, da.tensor, da.tensor, {.provider = MatmulProvider::onednn}, run.workspace.tensor, dc.tensor);
    return test::to_host(run, dc.tensor).v;
  };
  const std::vector<double> want = product_of();
  for (int i = 0; i < 200; ++i) {
    const StopSignal stop;  // a second signal to the same one may end the process
    std::thread sender([i] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * (i % 50)));
      kill(getpid(), SIGTERM);
    });
    do {
      ASSERT_EQ(product_of(), want);
    } while (StopSignal::received() == 0);
    sender.join();
  }
}

TEST_P(Matmul, RowsMayBeStridedAndNothingAroundThemIsTouched) {
  const auto [provider, in, out] = GetParam();
  if (!offers(provider, in, out)) GTEST_SKIP() << "no such product of this provider here";
  Queue run;
  const std::uint64_t seed = test::test_seed() + 1000;
  const std::int64_t m = 71, n = 45, l = 53, left = 3, right = 9;
  const auto window = [&](const HostTensor& whole, std::int64_t columns) {
    HostTensor w = test::zeros({whole.shape[0], columns});
    for (std::int64_t i = 0; i < w.shape[0]; ++i)
      for (std::int64_t j = 0; j < columns; ++j) w.at(i, j) = whole.at(i, left + j);
    return w;
  };
  const HostTensor a = test::random_normal({m, left + l + right}, seed).rounded(in);
  const HostTensor b = test::random_normal({n, left + l + right}, seed + 1).rounded(in);
  HostTensor c = test::random_normal({m, left + n + right}, seed + 2).rounded(out);
  const DeviceTensor da = to_device(run, a, in), db = to_device(run, b, in), dc = to_device(run, c, out);
  matmul(run, da.tensor.slice(1, left, left + l), db.tensor.slice(1, left, left + l),
         {.b = Transpose::yes, .beta = 1, .provider = provider}, run.workspace.tensor,
         dc.tensor.slice(1, left, left + n));
  const HostTensor want = product(window(a, l), false, window(b, l), true, 1, 1, window(c, n));
  const HostTensor got = test::to_host(run, dc.tensor);
  EXPECT_TRUE(test::close(window(got, n), want, tolerance(out, l)));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < c.shape[1]; ++j)
      if (j < left || j >= left + n) {
        ASSERT_EQ(got.at(i, j), c.at(i, j)) << i << ", " << j;
      }
}

HostTensor columns(const HostTensor& whole, std::int64_t begin, std::int64_t end) {
  HostTensor w = test::zeros({whole.shape[0], end - begin});
  for (std::int64_t i = 0; i < w.shape[0]; ++i)
    for (std::int64_t j = begin; j < end; ++j) w.at(i, j - begin) = whole.at(i, j);
  return w;
}

TEST_P(Matmul, AnAddendElsewhereIsReadOnceAndLeftAlone) {
  const auto [provider, in, out] = GetParam();
  if (!offers(provider, in, out)) GTEST_SKIP() << "no such product of this provider here";
  Queue run;
  std::uint64_t seed = test::test_seed() + 2000;
  for (const Case& s : kCases)
    for (const auto& [alpha, beta] : {std::pair{1.0f, 1.0f}, {-0.5f, 0.25f}, {1.0f, 0.0f}}) {
      // The addend is a window with gaps of its own, C another.
      const std::int64_t left = 5, right = 2;
      const HostTensor a = test::random_normal({s.m, s.l}, ++seed).rounded(in),
                       b = test::random_normal({s.n, s.l}, ++seed).rounded(in),
                       z = test::random_normal({s.m, left + s.n + right}, ++seed).rounded(out),
                       c = test::random_normal({s.m, s.n + 1}, ++seed).rounded(out);
      const DeviceTensor da = to_device(run, a, in), db = to_device(run, b, in), dz = to_device(run, z, out),
                         dc = to_device(run, c, out);
      matmul(run, da.tensor, db.tensor,
             {.b = Transpose::yes,
              .alpha = alpha,
              .beta = beta,
              .addend = dz.tensor.slice(1, left, left + s.n),
              .provider = provider},
             run.workspace.tensor, dc.tensor.slice(1, 1, 1 + s.n));
      const HostTensor want = product(a, false, b, true, alpha, beta, columns(z, left, left + s.n));
      const HostTensor got = test::to_host(run, dc.tensor);
      EXPECT_TRUE(test::close(columns(got, 1, 1 + s.n), want, tolerance(in, out, s.l),
                              std::abs(alpha) * std::sqrt(double(s.l))))
          << s.m << " x " << s.n << " x " << s.l << " alpha " << alpha << " beta " << beta;
      for (std::int64_t i = 0; i < s.m; ++i) ASSERT_EQ(got.at(i, 0), c.at(i, 0));
      ASSERT_EQ(test::to_host(run, dz.tensor).v, z.v);
    }
}

TEST_P(Matmul, RunsAgreeToTheBit) {
  const auto [provider, in, out] = GetParam();
  if (!offers(provider, in, out)) GTEST_SKIP() << "no such product of this provider here";
  Queue run;
  // Few rows and columns and a long sum: the shape that invites splitting the sum among threads.
  const HostTensor a = test::random_normal({4096, 96}, test::test_seed() + 7).rounded(in),
                   b = test::random_normal({4096, 80}, test::test_seed() + 8).rounded(in);
  const DeviceTensor da = to_device(run, a, in), db = to_device(run, b, in);
  std::vector<std::uint8_t> first;
  for (int i = 0; i < 8; ++i) {
    const DeviceTensor dc = test::empty_device({96, 80}, out);
    matmul(run, da.tensor, db.tensor, {.a = Transpose::yes, .provider = provider}, run.workspace.tensor, dc.tensor);
    const std::vector<std::uint8_t> bits = test::raw_bytes(run, dc.tensor);
    if (i == 0) first = bits;
    ASSERT_EQ(bits, first) << "run " << i;
  }
}

TEST_P(Matmul, RunsFromARecordingToTheBit) {
  const auto [provider, in, out] = GetParam();
  if (!offers(provider, in, out) || !Graph::available()) GTEST_SKIP() << "no such product, or nothing to record";
  Queue run;
  const DeviceTensor a = to_device(run, test::random_normal({96, 200}, test::test_seed()), in),
                     b = to_device(run, test::random_normal({64, 200}, test::test_seed() + 1), in),
                     z = to_device(run, test::random_normal({96, 64}, test::test_seed() + 2), out),
                     c = test::empty_device({96, 64}, out);
  const auto work = [&, provider = provider] {
    matmul(run, a.tensor, b.tensor, {.b = Transpose::yes, .beta = 1, .addend = z.tensor, .provider = provider},
           run.workspace.tensor, c.tensor);
  };
  work();
  const std::vector<std::uint8_t> by_hand = test::raw_bytes(run, c.tensor);
  const Graph graph(run, work);
  for (int i = 0; i < 2; ++i) {
    fill_zero(run, c.tensor);
    graph.launch(run);
    EXPECT_EQ(test::raw_bytes(run, c.tensor), by_hand);
  }
}

std::string name(const ::testing::TestParamInfo<Matmul::ParamType>& info) {
  static const char* const names[] = {"automatic", "reference", "blas", "onednn", "cublaslt"};
  return std::string(names[int(std::get<0>(info.param))]) + "_" + std::string(name_of(std::get<1>(info.param))) + "_" +
         std::string(name_of(std::get<2>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(Providers, Matmul,
                         ::testing::Combine(::testing::ValuesIn(kProviders), ::testing::Values(DType::f32, DType::bf16),
                                            ::testing::Values(DType::f32, DType::bf16)),
                         name);

TEST(MatmulChecks, ThePortableKernelIsEverywhereAndAutomaticNeedsNoName) {
  EXPECT_TRUE(has_provider(MatmulProvider::reference, DType::bf16));
  EXPECT_TRUE(has_provider(MatmulProvider::automatic, DType::f32));
  EXPECT_FALSE(has_provider(MatmulProvider::automatic, DType::i32));
  EXPECT_NE(has_provider(MatmulProvider::cublaslt, DType::bf16), has_provider(MatmulProvider::blas, DType::f32));
}

TEST(MatmulChecks, EmptySumsScaleC) {
  Queue run;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const DeviceTensor c = test::empty_device({3, 5}, dtype);
    matmul(run, Tensor(nullptr, dtype, {3, 0}), Tensor(nullptr, dtype, {0, 5}), {}, run.workspace.tensor, c.tensor);
    for (const double x : test::to_host(run, c.tensor).v) EXPECT_EQ(x, 0.0);
  }
}

TEST(MatmulChecks, MessagesNameTheOperandAndTheShape) {
  Queue run;
  const DeviceTensor a = test::empty_device({3, 4}, DType::f32), b = test::empty_device({5, 6}, DType::f32),
                     c = test::empty_device({3, 6}, DType::f32), h = test::empty_device({4, 6}, DType::bf16),
                     i = test::empty_device({4, 6}, DType::i32);
  const auto call = [&](const DeviceTensor& x, const DeviceTensor& y, const DeviceTensor& z) {
    return test::error_of([&] { matmul(run, x.tensor, y.tensor, {}, run.workspace.tensor, z.tensor); });
  };
  EXPECT_NE(call(a, b, c).find("inner extents differ"), std::string::npos);
  EXPECT_NE(call(a, h, c).find("share a dtype"), std::string::npos);
  EXPECT_NE(call(i, b, c).find("A is i32[4, 6]"), std::string::npos);
  EXPECT_NE(call(h, b, c).find("share a dtype"), std::string::npos);
  EXPECT_NE(call(a, i, c).find("B is i32[4, 6]"), std::string::npos);
  const DeviceTensor wide = test::empty_device({3, 7}, DType::f32);
  const DeviceTensor b4 = test::empty_device({4, 6}, DType::f32);
  EXPECT_NE(call(a, b4, wide).find("expected shape [3, 6]"), std::string::npos);
}

TEST(MatmulChecks, BlasSaysWhereItsLimitIs) {
  if (!has_provider(MatmulProvider::blas, DType::f32)) GTEST_SKIP() << "not on this device";
  Queue run;
  float value = 1;
  // Nothing is read: the extents are checked first.
  const std::int64_t big = (std::int64_t(1) << 31) + 3;
  const Tensor a(&value, DType::f32, {big, 1}), b(&value, DType::f32, {1, 1}), c(&value, DType::f32, {big, 1});
  const std::string message =
      test::error_of([&] { matmul(run, a, b, {.provider = MatmulProvider::blas}, run.workspace.tensor, c); });
  EXPECT_NE(message.find("M is 2147483651"), std::string::npos) << message;
}

TEST(MatmulChecks, ASmallWorkspaceIsRefusedWhereOneIsNeeded) {
  const bool cpu = has_provider(MatmulProvider::blas, DType::bf16);
  const MatmulProvider provider = cpu ? MatmulProvider::blas : MatmulProvider::cublaslt;
  Queue run;
  const DeviceTensor a = test::empty_device({8, 8}, DType::bf16), c = test::empty_device({8, 8}, DType::f32),
                     small = test::empty_device({256}, DType::u8);
  EXPECT_NE(test::error_of([&] {
              matmul(run, a.tensor, a.tensor, {.provider = provider}, small.tensor, c.tensor);
            }).find("matmul_workspace()"),
            std::string::npos);
}

TEST(Linear, IsTheThreeProductsOfALayer) {
  Queue run;
  const std::uint64_t seed = test::test_seed() + 20;
  const std::int64_t tokens = 37, in = 29, out = 43;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const HostTensor x = test::random_normal({tokens, in}, seed).rounded(dtype),
                     w = test::random_normal({out, in}, seed + 1).rounded(dtype),
                     dy = test::random_normal({tokens, out}, seed + 2).rounded(dtype),
                     dw0 = test::random_normal({out, in}, seed + 3);
    const DeviceTensor dx_ = to_device(run, x, dtype), dw_ = to_device(run, w, dtype), ddy = to_device(run, dy, dtype);
    const DeviceTensor y = test::empty_device({tokens, out}, dtype), dx = test::empty_device({tokens, in}, dtype);
    const DeviceTensor dw = to_device(run, dw0, DType::f32);
    linear_forward(run, dx_.tensor, dw_.tensor, run.workspace.tensor, y.tensor);
    linear_backward_input(run, ddy.tensor, dw_.tensor, false, run.workspace.tensor, dx.tensor);
    linear_backward_weight(run, ddy.tensor, dx_.tensor, true, run.workspace.tensor, dw.tensor);
    EXPECT_TRUE(test::close(test::to_host(run, y.tensor), product(x, false, w, true, 1, 0, test::zeros({tokens, out})),
                            tolerance(dtype, in)));
    EXPECT_TRUE(test::close(test::to_host(run, dx.tensor),
                            product(dy, false, w, false, 1, 0, test::zeros({tokens, in})), tolerance(dtype, out)));
    EXPECT_TRUE(test::close(test::to_host(run, dw.tensor), product(dy, true, x, false, 1, 1, dw0.rounded(DType::f32)),
                            tolerance(DType::f32, tokens)));
  }
}

TEST(Linear, AddsAResidualWithOneRounding) {
  Queue run;
  const std::uint64_t seed = test::test_seed() + 40;
  const std::int64_t tokens = 67, in = 29, out = 43;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const HostTensor x = test::random_normal({tokens, in}, seed + 1).rounded(dtype),
                     w = test::random_normal({out, in}, seed + 2).rounded(dtype);
    HostTensor residual = test::random_normal({tokens, out}, seed);
    if (dtype == DType::bf16) {
      // It cancels all of the product but what rounding would have cut off: a product rounded first gives zeros.
      residual = product(x, false, w, true, -1, 0, residual).rounded(dtype);
    }
    const HostTensor want = product(x, false, w, true, 1, 1, residual);
    const DeviceTensor dx = to_device(run, x, dtype), dw = to_device(run, w, dtype),
                       dr = to_device(run, residual, dtype), y = test::empty_device({tokens, out}, dtype);
    linear_forward_residual(run, dx.tensor, dw.tensor, dr.tensor, run.workspace.tensor, y.tensor);
    EXPECT_TRUE(test::close(test::to_host(run, y.tensor), want, tolerance(dtype, in)));
    const std::vector<std::uint8_t> elsewhere = test::raw_bytes(run, y.tensor);
    linear_forward_residual(run, dx.tensor, dw.tensor, dr.tensor, run.workspace.tensor, dr.tensor);
    EXPECT_TRUE(test::close(test::to_host(run, dr.tensor), want, tolerance(dtype, in)));
    EXPECT_EQ(test::raw_bytes(run, dr.tensor), elsewhere);
  }
}

TEST(MatmulChecks, AnAddendOfAnotherShapeOrDtypeIsRefused) {
  Queue run;
  const DeviceTensor a = test::empty_device({3, 4}, DType::f32), w = test::empty_device({6, 4}, DType::f32),
                     y = test::empty_device({3, 6}, DType::f32), half = test::empty_device({3, 6}, DType::bf16),
                     wide = test::empty_device({3, 7}, DType::f32);
  const auto call = [&](const Tensor& residual) {
    return test::error_of(
        [&] { linear_forward_residual(run, a.tensor, w.tensor, residual, run.workspace.tensor, y.tensor); });
  };
  EXPECT_NE(call(half.tensor).find("the addend is bf16[3, 6]"), std::string::npos);
  EXPECT_NE(call(wide.tensor).find("the addend is f32[3, 7]"), std::string::npos);
  EXPECT_NE(call({}).find("the residual is none"), std::string::npos);
}

}  // namespace
}  // namespace mylos::kernels
