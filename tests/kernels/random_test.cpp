#include "kernels/random/random.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernel_test.hpp"
#include "tensor/philox.hpp"

namespace mylos {
namespace {

using namespace test;

// The definition, element by element in fp64.
double reference_normal(std::uint64_t seed, std::uint64_t g) {
  const PhiloxBlock words = philox(seed, Purpose::init, 0, g / 4);
  const std::size_t pair = g % 4 / 2;
  const double radius = std::sqrt(-2 * std::log(double(unit_interval(words.v[2 * pair]))));
  const double angle = 2 * 3.141592653589793 * double(unit_interval(words.v[2 * pair + 1]));
  return radius * (g % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

TEST(Random, MatchesItsDefinition) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::uint64_t first : {std::uint64_t(0), std::uint64_t(3), (std::uint64_t(1) << 40) + 2})
      for (const std::int64_t n : {1, 2, 5, 1000}) {
        const DeviceTensor t = empty_device({n}, dtype);
        kernels::random_normal(stream, test_seed(), first, 0.5f, t.tensor);
        HostTensor want = zeros({n});
        for (std::int64_t i = 0; i < n; ++i) want[i] = 0.5 * reference_normal(test_seed(), first + std::uint64_t(i));
        EXPECT_TRUE(close(to_host(stream, t.tensor), want, tolerance_of(dtype), 0.5))
            << name_of(dtype) << " " << first << " " << n;
      }
}

TEST(Random, ShardsAreCutsOfTheWhole) {
  Stream stream;
  const std::int64_t n = 5003;
  const DeviceTensor whole = empty_device({n}, DType::f32), parts = empty_device({n}, DType::f32);
  kernels::random_normal(stream, test_seed(), 17, 1.0f, whole.tensor);
  for (std::int64_t begin = 0; begin < n; begin += 1237)
    kernels::random_normal(stream, test_seed(), 17 + std::uint64_t(begin), 1.0f,
                           parts.tensor.slice(0, begin, std::min(n, begin + 1237)));
  EXPECT_EQ(raw_bytes(stream, whole.tensor), raw_bytes(stream, parts.tensor));
}

TEST(Random, IsNormal) {
  Stream stream;
  const std::int64_t n = 400000;
  const DeviceTensor t = empty_device({n}, DType::f32);
  kernels::random_normal(stream, test_seed(), 0, 1.0f, t.tensor);
  const HostTensor h = to_host(stream, t.tensor);
  double moments[5] = {};
  double neighbours = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double power = 1;
    for (double& m : moments) {
      m += power / double(n);
      power *= h[i];
    }
    if (i > 0) neighbours += h[i] * h[i - 1] / double(n);
  }
  // Six standard errors of each estimate.
  const double sigma = 6 / std::sqrt(double(n));
  EXPECT_NEAR(moments[1], 0, sigma);
  EXPECT_NEAR(moments[2], 1, std::sqrt(2.0) * sigma);
  EXPECT_NEAR(moments[3], 0, std::sqrt(15.0) * sigma);
  EXPECT_NEAR(moments[4], 3, std::sqrt(96.0) * sigma);
  EXPECT_NEAR(neighbours, 0, sigma);
}

TEST(Random, RefusesAnImpossibleDeviation) {
  Stream stream;
  const DeviceTensor t = empty_device({4}, DType::f32);
  EXPECT_THROW(kernels::random_normal(stream, 1, 0, -1.0f, t.tensor), Error);
  EXPECT_THROW(kernels::random_normal(stream, 1, 0, INFINITY, t.tensor), Error);
}

}  // namespace
}  // namespace mylos
