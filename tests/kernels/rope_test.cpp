#include "kernels/rope/rope.hpp"

#include <array>

#include "base/error.hpp"
#include "kernel_test.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

constexpr double kTheta = 500000.0;

// x [T, N·h] rotated by sign · angle.
HostTensor reference(HostTensor x, const std::vector<std::int32_t>& positions, std::int64_t heads, std::int64_t size,
                     double sign) {
  for (std::int64_t t = 0; t < x.shape[0]; ++t)
    for (std::int64_t n = 0; n < heads; ++n)
      for (std::int64_t i = 0; i < size / 2; ++i) {
        const double angle =
            sign * double(positions[std::size_t(t)]) * std::pow(kTheta, -2.0 * double(i) / double(size));
        double &x1 = x.at(t, n * size + i), &x2 = x.at(t, n * size + i + size / 2);
        const double y1 = x1 * std::cos(angle) - x2 * std::sin(angle);
        x2 = x2 * std::cos(angle) + x1 * std::sin(angle);
        x1 = y1;
      }
  return x;
}

TEST(Rope, TableIsExactToFp32) {
  Stream stream;
  const std::int64_t length = 8193, size = 10;
  const DeviceTensor table = empty_device({length, size}, DType::f32);
  k::rope_table(stream, kTheta, table.tensor);
  const HostTensor got = to_host(stream, table.tensor);
  for (std::int64_t p = 0; p < length; ++p)
    for (std::int64_t i = 0; i < size / 2; ++i) {
      const double angle = double(p) * std::pow(kTheta, -2.0 * double(i) / double(size));
      ASSERT_NEAR(got.at(p, i), std::cos(angle), 7e-8) << p << " " << i;
      ASSERT_NEAR(got.at(p, size / 2 + i), std::sin(angle), 7e-8) << p << " " << i;
    }
}

TEST(Rope, RotatesWindowsOfAProjectionBothWays) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [tokens, heads, size, offset] : std::vector<std::array<std::int64_t, 4>>{
             {1, 1, 2, 0}, {7, 3, 6, 0}, {33, 5, 64, 0}, {19, 4, 128, 0}, {5, 3, 64, 1}, {9, 2, 24, 0}}) {
      SCOPED_TRACE(fmt::format("{} [{}, {}, {}] at {}", name_of(dtype), tokens, heads, size, offset));
      const std::vector<std::int32_t> positions = random_ints(tokens, 0, 4096, test_seed());
      const HostTensor x = random_normal({tokens, heads * size}, test_seed() + 1).rounded(dtype);
      const DeviceTensor table = empty_device({4096, size}, DType::f32), at = to_device(stream, positions, {tokens});
      k::rope_table(stream, kTheta, table.tensor);
      const Window w(stream, x, dtype, offset, 64 - offset);
      const Tensor window = w.tensor.reshape({tokens, heads, size});
      k::rope(stream, k::RopeDirection::forward, table.tensor, at.tensor, window);
      const HostTensor rotated = w.values(stream);
      EXPECT_TRUE(close(rotated, reference(x, positions, heads, size, 1.0), tolerance_of(dtype)));
      k::rope(stream, k::RopeDirection::backward, table.tensor, at.tensor, window);
      EXPECT_TRUE(close(w.values(stream), reference(rotated, positions, heads, size, -1.0), tolerance_of(dtype)));
      EXPECT_TRUE(close(w.values(stream), x, tolerance_of(dtype))) << "there and back";
    }
}

TEST(Rope, BackwardIsTheGradientOfForward) {
  const std::vector<std::int32_t> positions{0, 5, 1000};
  const HostTensor x = random_normal({3, 2 * 6}, test_seed() + 2), dy = random_normal({3, 2 * 6}, test_seed() + 3);
  expect_gradient([&](const HostTensor& at) { return dot(reference(at, positions, 2, 6, 1.0), dy); }, x,
                  reference(dy, positions, 2, 6, -1.0));
}

TEST(Rope, WrongOperandsThrow) {
  Stream stream;
  const DeviceTensor table = empty_device({16, 8}, DType::f32), at = empty_device({3}, DType::i32),
                     odd = empty_device({3, 1, 7}, DType::f32);
  const DeviceTensor x = empty_device({4, 1, 8}, DType::f32), odd_table = empty_device({16, 7}, DType::f32);
  EXPECT_THROW(k::rope(stream, k::RopeDirection::forward, table.tensor, at.tensor, x.tensor), Error);
  EXPECT_THROW(k::rope(stream, k::RopeDirection::forward, odd_table.tensor, at.tensor, odd.tensor), Error);
  EXPECT_THROW(k::rope_table(stream, kTheta, odd_table.tensor), Error);
  EXPECT_THROW(k::rope_table(stream, -1.0, table.tensor), Error);
}

}  // namespace
}  // namespace mylos
