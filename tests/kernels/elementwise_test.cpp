#include "kernels/elementwise/elementwise.hpp"

#include "base/error.hpp"
#include "kernel_test.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

constexpr DType kFloats[] = {DType::f32, DType::bf16};
const std::vector<std::int64_t> kSizes{1, 2, 7, 8, 9, 31, 1000, 8191, 8192, 8193, 30011};

TEST(Elementwise, ConvertRoundsToNearestEven) {
  Stream stream;
  for (const DType from : kFloats)
    for (const DType to : kFloats)
      for (const std::int64_t n : kSizes) {
        SCOPED_TRACE(fmt::format("{} to {}, {} elements", name_of(from), name_of(to), n));
        const HostTensor x = random_normal({n + 1}, test_seed()).rounded(from);
        const DeviceTensor a = to_device(stream, x, from), b = empty_device({n + 1}, to);
        k::convert(stream, a.tensor, b.tensor);
        EXPECT_TRUE(close(to_host(stream, b.tensor), x.rounded(to), 0.0));
        const DeviceTensor c = empty_device({n + 1}, to);
        k::convert(stream, shifted(a, {n}), shifted(c, {n}));
        HostTensor rest = x.rounded(to), got = to_host(stream, c.tensor);
        EXPECT_TRUE(std::isnan(got[0]));
        rest[0] = got[0] = 0;
        EXPECT_TRUE(close(got, rest, 0.0)) << "unaligned";
      }
}

TEST(Elementwise, ConvertKeepsSpecialValues) {
  Stream stream;
  HostTensor x = zeros({9});
  // Ties to even on both sides, infinities, NaN, a value that rounds to infinity, a denormal, and both zeros.
  x.v = {1.00390625, 1.01171875, INFINITY, -INFINITY, std::nan(""), 3.4e38, 1e-40, 0.0, -0.0};
  const DeviceTensor a = to_device(stream, x, DType::f32), b = empty_device({9}, DType::bf16);
  k::convert(stream, a.tensor, b.tensor);
  const HostTensor y = to_host(stream, b.tensor);
  EXPECT_EQ(y[0], 1.0);
  EXPECT_EQ(y[1], 1.015625);
  EXPECT_EQ(y[2], INFINITY);
  EXPECT_EQ(y[3], -INFINITY);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], INFINITY);
  EXPECT_NEAR(y[6], 1e-40, 1e-41);
  EXPECT_FALSE(std::signbit(y[7]));
  EXPECT_TRUE(std::signbit(y[8]));
}

TEST(Elementwise, AddMixesDtypesAndWorksInPlace) {
  Stream stream;
  for (const DType ta : kFloats)
    for (const DType tb : kFloats)
      for (const DType ts : kFloats)
        for (const std::int64_t n : {1, 13, 8200}) {
          SCOPED_TRACE(fmt::format("{} + {} = {}, {} elements", name_of(ta), name_of(tb), name_of(ts), n));
          const HostTensor a = random_normal({n}, test_seed() + 1).rounded(ta),
                           b = random_normal({n}, test_seed() + 2).rounded(tb);
          const HostTensor want = plus(a, b).rounded(DType::f32).rounded(ts);
          const DeviceTensor da = to_device(stream, a, ta), db = to_device(stream, b, tb), sum = empty_device({n}, ts);
          k::add(stream, da.tensor, db.tensor, sum.tensor);
          EXPECT_TRUE(close(to_host(stream, sum.tensor), want, 0.0));
          if (ta == ts) {
            k::add(stream, da.tensor, db.tensor, da.tensor);
            EXPECT_TRUE(close(to_host(stream, da.tensor), want, 0.0)) << "in place";
          }
        }
}

TEST(Elementwise, FillWritesEveryElement) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16, DType::i32})
    for (const std::int64_t n : kSizes) {
      const DeviceTensor t = empty_device({n}, dtype);
      k::fill(stream, -3.0, t.tensor);
      HostTensor want = zeros({n});
      for (double& x : want.v) x = -3.0;
      EXPECT_TRUE(close(to_host(stream, t.tensor), want, 0.0)) << name_of(dtype) << " " << n;
    }
}

TEST(Elementwise, WrongOperandsThrow) {
  Stream stream;
  const DeviceTensor f = empty_device({4}, DType::f32), g = empty_device({5}, DType::f32),
                     u = empty_device({4}, DType::u8);
  EXPECT_THROW(k::convert(stream, f.tensor, g.tensor), Error);
  EXPECT_THROW(k::convert(stream, u.tensor, f.tensor), Error);
  EXPECT_THROW(k::add(stream, f.tensor, g.tensor, f.tensor), Error);
  EXPECT_THROW(k::fill(stream, 1.0, u.tensor), Error);
  const DeviceTensor m = empty_device({4, 4}, DType::f32);
  EXPECT_THROW(k::fill(stream, 1.0, m.tensor.slice(1, 0, 2)), Error);
}

}  // namespace
}  // namespace mylos
