#include "kernels/norm/norm.hpp"

#include "base/error.hpp"
#include "kernel_test.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

struct Sums {
  DeviceTensor work = empty_device({k::sum_workspace()}, DType::u8), result = empty_device({1}, DType::f64);

  double squares(const Stream& stream, const Tensor& t) {
    k::sum_of_squares(stream, t, work.tensor, result.tensor);
    return to_host(stream, result.tensor)[0];
  }
};

TEST(Norm, SquaresMatchFp64) {
  Stream stream;
  Sums s;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t n : {1, 2, 7, 8, 1023, 1025, 33333, 1000003}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(dtype), n));
      const HostTensor x = random_normal({n + 1}, test_seed(), 2.0, 0.5).rounded(dtype);
      const DeviceTensor t = to_device(stream, x, dtype);
      double squares = 0;
      for (double v : x.v) squares += v * v;
      EXPECT_NEAR(s.squares(stream, t.tensor), squares, 1e-12 * squares);
      EXPECT_NEAR(s.squares(stream, shifted(t, {n})), squares - x[0] * x[0], 1e-12 * squares) << "unaligned";
    }
}

// On a GPU the order of a sum depends on whether its rows begin at 16 bytes.
bool is_aligned_row(std::int64_t row, std::int64_t width, DType dtype) {
  return row == 0 || width * size_of(dtype) % 16 == 0 || !device_info().is_gpu;
}

TEST(Norm, SumsOfRowsMatchFp64AndDependOnTheirRowAlone) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {3, 7}, {2, 4096}, {5, 1031}, {1, 100003}, {700, 40}}) {
      SCOPED_TRACE(fmt::format("{} [{}, {}]", name_of(dtype), rows, width));
      const HostTensor x = random_normal({rows, width}, test_seed() + 2, 2.0, 0.5).rounded(dtype);
      const DeviceTensor t = to_device(stream, x, dtype), sums = empty_device({rows}, DType::f64),
                         alone = empty_device({1}, DType::f64);
      k::sum_rows(stream, t.tensor, sums.tensor);
      const HostTensor got = to_host(stream, sums.tensor);
      for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < width; ++i) {
          sum += x.at(r, i);
          size += std::fabs(x.at(r, i));
        }
        EXPECT_NEAR(got[r], sum, 1e-13 * size) << r;
      }
      k::sum_rows(stream, t.tensor.slice(0, rows - 1, rows), alone.tensor);
      if (is_aligned_row(rows - 1, width, dtype)) {
        EXPECT_EQ(to_host(stream, alone.tensor)[0], got[rows - 1]);
      }
    }
}

TEST(Norm, SquaresDoNotOverflowFp32AndRunsAgree) {
  Stream stream;
  Sums s;
  const HostTensor x = random_normal({100003}, test_seed() + 1, 1e25);
  const DeviceTensor t = to_device(stream, x, DType::f32);
  const double first = s.squares(stream, t.tensor);
  EXPECT_TRUE(std::isfinite(first));
  for (int run = 0; run < 5; ++run) EXPECT_EQ(first, s.squares(stream, t.tensor));
}

std::pair<double, double> clip(const Stream& stream, double squares, float max_norm) {
  const DeviceTensor in = empty_device({1}, DType::f64), out = to_device(stream, zeros({2}), DType::f32);
  upload(stream, &squares, 8, in.tensor);
  k::clip_scale(stream, in.tensor, max_norm, out.tensor);
  const HostTensor h = to_host(stream, out.tensor);
  return {h[0], h[1]};
}

TEST(Norm, ClipScale) {
  Stream stream;
  EXPECT_EQ(clip(stream, 0.25, 1.0f), (std::pair<double, double>{0.5, 1.0}));
  EXPECT_EQ(clip(stream, 16.0, 0.0f), (std::pair<double, double>{4.0, 1.0}));
  EXPECT_EQ(clip(stream, 16.0, -1.0f), (std::pair<double, double>{4.0, 1.0}));
  EXPECT_EQ(clip(stream, 0.0, 1.0f), (std::pair<double, double>{0.0, 1.0}));
  const auto [norm, scale] = clip(stream, 16.0, 1.0f);
  EXPECT_EQ(norm, 4.0);
  EXPECT_NEAR(scale, 1.0 / (4.0 + 1e-6), 1e-7);
  for (const float max_norm : {0.0f, 1.0f})
    for (const double bad : {std::nan(""), double(INFINITY), 1e80})
      EXPECT_TRUE(std::isnan(clip(stream, bad, max_norm).second)) << bad;
}

TEST(Norm, AScaleThatIsNanStaysNan) {
  Stream stream;
  const DeviceTensor in = empty_device({1}, DType::f64), out = to_device(stream, zeros({2}), DType::f32);
  const auto next = [&](double squares) {
    upload(stream, &squares, 8, in.tensor);
    k::clip_scale(stream, in.tensor, 1.0f, out.tensor);
    return to_host(stream, out.tensor);
  };
  EXPECT_EQ(next(0.25)[1], 1.0);
  EXPECT_TRUE(std::isnan(next(INFINITY)[1]));
  for (const double squares : {0.25, 16.0}) {
    const HostTensor h = next(squares);
    EXPECT_EQ(h[0], std::sqrt(squares)) << "the norm is that of this step";
    EXPECT_TRUE(std::isnan(h[1]));
  }
  fill_zero(stream, out.tensor);
  EXPECT_EQ(next(0.25)[1], 1.0);
}

TEST(Norm, WrongOperandsThrow) {
  Stream stream;
  Sums s;
  const DeviceTensor t = empty_device({4}, DType::i32), f = empty_device({4}, DType::f32),
                     small = empty_device({8}, DType::u8);
  EXPECT_THROW(s.squares(stream, t.tensor), Error);
  EXPECT_THROW(k::sum_of_squares(stream, f.tensor, small.tensor, s.result.tensor), Error);
  EXPECT_THROW(k::sum_rows(stream, f.tensor, s.result.tensor), Error);
}

}  // namespace
}  // namespace mylos
