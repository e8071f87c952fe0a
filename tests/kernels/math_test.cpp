#include "kernels/detail/math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mylos::kernels {
namespace {

TEST(Exp, IsWithinTwoUlpOverItsWholeRange) {
  double worst = 0;
  for (double x = 88.2; x > -87; x -= 3.1e-5) {
    const float argument = float(x);
    const double want = std::exp(double(argument));
    const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
    worst = std::max(worst, std::fabs(double(exp_f32(argument)) - want) / ulp);
  }
  EXPECT_LE(worst, 2.0);
}

TEST(Exp, EndsOfItsRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  for (const float x : {-87.001f, -3e38f, -kInfinity}) EXPECT_EQ(exp_f32(x), 0.0f) << x;
  for (const float x : {88.3f, 89.0f, 3e38f, kInfinity}) EXPECT_NEAR(exp_f32(x), std::exp(88.3), 1e34) << x;
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Sigmoid, SaturatesAtZeroAndOne) {
  EXPECT_EQ(sigmoid_f32(0.0f), 0.5f);
  EXPECT_EQ(sigmoid_f32(100.0f), 1.0f);
  EXPECT_NEAR(sigmoid_f32(-1000.0f), 0.0, 1e-38);
}

}  // namespace
}  // namespace mylos::kernels
