#include "tensor/tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"

namespace mylos {
namespace {

TEST(Tensor, DenseStridesAndSizes) {
  float data[24];
  const Tensor t(data, DType::f32, {2, 3, 4});
  EXPECT_EQ(t.size(), 24);
  EXPECT_EQ(t.bytes(), 96);
  EXPECT_EQ(t.stride(0), 12);
  EXPECT_EQ(t.extent(-1), 4);
  EXPECT_TRUE(t.is_dense());
  EXPECT_EQ(t.describe(), "f32[2, 3, 4]");
  EXPECT_FALSE(Tensor{});
}

TEST(Tensor, SliceAndSplitKeepStrides) {
  float data[24];
  const Tensor qkv(data, DType::f32, {2, 12});
  const Tensor k = qkv.slice(1, 4, 8);
  EXPECT_EQ(k.as<float>(), data + 4);
  EXPECT_FALSE(k.is_dense());
  EXPECT_TRUE(qkv.slice(1, 4, 4).is_dense());  // nothing has no gaps
  const Tensor heads = k.reshape({2, 2, 2});
  EXPECT_EQ(heads.stride(0), 12);
  EXPECT_EQ(heads.stride(1), 2);
  EXPECT_THROW(k.reshape({8}), Error);
}

TEST(Tensor, MistakesAreErrors) {
  float data[6];
  const Tensor t(data, DType::f32, {2, 3});
  EXPECT_THROW(t.as<bf16>(), Error);
  EXPECT_THROW(t.slice(1, 2, 4), Error);
  EXPECT_THROW(t.reshape({7}), Error);
  EXPECT_THROW(Tensor(data, DType::f32, {-1}), Error);
  EXPECT_THROW(Tensor(data, DType::f32, {INT64_MAX / 2, INT64_MAX / 2}), Error);
  EXPECT_THROW(expect("op", "x", t, DType::bf16, {2, 3}), Error);
  EXPECT_THROW(expect("op", "x", t, DType::f32, {2, 4}), Error);
  EXPECT_NO_THROW(expect("op", "x", t, DType::f32, {-1, 3}));
  EXPECT_THROW(dtype_of("fp8"), Error);
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(float(bf16(1.0f)), 1.0f);
  EXPECT_EQ(float(bf16(1.00390625f)), 1.0f);       // half way, to even
  EXPECT_EQ(float(bf16(1.01171875f)), 1.015625f);  // half way, to even
  EXPECT_TRUE(std::isnan(float(bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isinf(float(bf16(3.4e38f))));
}

}  // namespace
}  // namespace mylos
