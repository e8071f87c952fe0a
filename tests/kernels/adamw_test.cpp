#include "kernels/adamw/adamw.hpp"

#include <cstring>
#include <random>

#include "base/error.hpp"
#include "kernel_test.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

DeviceTensor from_bits(const Stream& stream, const void* data, std::int64_t n, DType dtype) {
  DeviceTensor d = empty_device({n}, dtype);
  upload(stream, data, d.tensor.bytes(), d.tensor);
  stream.fence();
  return d;
}

template <class T>
std::vector<T> values(const Stream& stream, const Tensor& t) {
  const std::vector<std::uint8_t> raw = raw_bytes(stream, t);
  std::vector<T> v(raw.size() / sizeof(T));
  std::memcpy(v.data(), raw.data(), raw.size());
  return v;
}

TEST(AdamW, SplitThenJoinIsTheIdentityOnEveryKindOfBits) {
  Stream stream;
  std::vector<std::uint32_t> bits{0u,          0x80000000u, 1u,          0x80000001u, 0x007fffffu, 0x807fffffu,
                                  0x00008000u, 0x80008000u, 0x3f808000u, 0xbf808000u, 0x3f818000u, 0x3f807fffu,
                                  0x3f808001u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u, 0x7fc00000u,
                                  0xffffffffu, 0x7fffffffu, 0x0000ffffu};
  std::mt19937_64 gen(test_seed());
  while (bits.size() < 100003) bits.push_back(std::uint32_t(gen()));
  const std::int64_t n = std::int64_t(bits.size());
  const DeviceTensor master = from_bits(stream, bits.data(), n, DType::f32), back = empty_device({n}, DType::f32);
  const DeviceTensor p = empty_device({n}, DType::bf16), low = empty_device({n}, DType::u16);
  k::split_master(stream, master.tensor, p.tensor, low.tensor);
  k::join_master(stream, p.tensor, low.tensor, back.tensor);
  EXPECT_EQ(values<std::uint32_t>(stream, back.tensor), bits);

  // The model's weight is the nearest bf16, ties away from zero.
  const std::vector<std::uint16_t> high = values<std::uint16_t>(stream, p.tensor),
                                   rest = values<std::uint16_t>(stream, low.tensor);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(rest[i], std::uint16_t(bits[i]));
    const float x = std::bit_cast<float>(bits[i]);
    if (!std::isfinite(x)) continue;
    const float below = std::bit_cast<float>(bits[i] & 0xffff0000u),
                above = std::bit_cast<float>((bits[i] & 0xffff0000u) + 0x10000u);
    const double to_below = std::fabs(double(x) - double(below)), to_above = std::fabs(double(above) - double(x));
    if (!std::isfinite(above)) continue;  // the last bf16 below infinity has no neighbour to compare with
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to_below < to_above ? below : above) >> 16, high[i]) << std::hex << bits[i];
  }
}

struct Hyper {
  k::AdamWStep step{.learning_rate = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f};
};

// One step in fp64 on whatever state it is given.
struct Reference {
  HostTensor p, m, v;
  void step(const k::AdamWStep& s, const HostTensor& g, double scale) {
    const double b1 = double(s.beta1), b2 = double(s.beta2);
    const double c1 = 1 - std::pow(b1, double(s.step)), c2 = 1 - std::pow(b2, double(s.step));
    for (std::int64_t i = 0; i < p.size(); ++i) {
      const double d = g[i] * scale;
      m[i] = b1 * m[i] + (1 - b1) * d;
      v[i] = b2 * v[i] + (1 - b2) * d * d;
      p[i] -= double(s.learning_rate) *
              (m[i] / c1 / (std::sqrt(v[i] / c2) + double(s.eps)) + double(s.weight_decay) * p[i]);
    }
  }
};

// p as the optimizer sees it: f32, or bf16 with its lower half.
struct State {
  DeviceTensor p, low, m, v;
  bool split;

  State(const Stream& stream, const HostTensor& weights, bool split_, DType moments)
      : m(to_device(stream, zeros({weights.size()}), moments)),
        v(to_device(stream, zeros({weights.size()}), moments)),
        split(split_) {
    DeviceTensor master = to_device(stream, weights, DType::f32);
    if (split) {
      p = empty_device({weights.size()}, DType::bf16);
      low = empty_device({weights.size()}, DType::u16);
      k::split_master(stream, master.tensor, p.tensor, low.tensor);
    } else {
      p = std::move(master);
    }
  }
  HostTensor master(const Stream& stream) const {
    if (!split) return to_host(stream, p.tensor);
    const DeviceTensor joined = empty_device({p.tensor.size()}, DType::f32);
    k::join_master(stream, p.tensor, low.tensor, joined.tensor);
    return to_host(stream, joined.tensor);
  }
};

TEST(AdamW, TwentyStepsFollowFp64) {
  Stream stream;
  for (const std::int64_t n : {1, 13, 8195})
    for (const DType grad : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} elements, g {}", n, name_of(grad)));
      const HostTensor weights = random_normal({n}, test_seed() + 1, 0.05).rounded(DType::f32);
      State plain(stream, weights, false, DType::f32), split(stream, weights, true, DType::f32);
      Reference reference{weights, zeros({n}), zeros({n})};
      k::AdamWStep s = Hyper{}.step;
      for (s.step = 1; s.step <= 20; ++s.step) {
        const HostTensor g = random_normal({n}, test_seed() + 100 + std::uint64_t(s.step), 0.01).rounded(grad);
        const float clip = s.step % 3 == 0 ? 0.37f : 1.0f;
        const DeviceTensor dg = to_device(stream, g, grad), scale = from_bits(stream, &clip, 1, DType::f32);
        k::adamw(stream, s, dg.tensor, scale.tensor, plain.p.tensor, {}, plain.m.tensor, plain.v.tensor);
        k::adamw(stream, s, dg.tensor, scale.tensor, split.p.tensor, split.low.tensor, split.m.tensor, split.v.tensor);
        reference.step(s, g, double(clip));
      }
      EXPECT_TRUE(close(plain.master(stream), reference.p, 1e-6, 0.05));
      EXPECT_TRUE(close(to_host(stream, plain.m.tensor), reference.m, 1e-6, 0.01));
      EXPECT_TRUE(close(to_host(stream, plain.v.tensor), reference.v, 1e-6));
      // The split state is the fp32 master to the bit.
      EXPECT_TRUE(close(split.master(stream), plain.master(stream), 0.0));
      EXPECT_EQ(raw_bytes(stream, plain.v.tensor), raw_bytes(stream, split.v.tensor));
      // Of one element alone the twenty steps may cancel.
      if (n > 1) {
        EXPECT_GT(relative_error(reference.p, weights), 0.01) << "the test would not see a missing update";
      }
    }
}

TEST(AdamW, OneStepIsRightElementByElement) {
  Stream stream;
  const std::int64_t n = 4099;
  Reference reference{random_normal({n}, test_seed() + 2).rounded(DType::f32),
                      random_normal({n}, test_seed() + 3, 0.1).rounded(DType::f32),
                      random_normal({n}, test_seed() + 4, 0.1).rounded(DType::f32)};
  for (double& x : reference.v.v) x = std::fabs(x) + 0.001;
  reference.v = reference.v.rounded(DType::f32);
  const HostTensor g = random_normal({n}, test_seed() + 5).rounded(DType::f32);
  State state(stream, reference.p, true, DType::f32);
  state.m = to_device(stream, reference.m, DType::f32);
  state.v = to_device(stream, reference.v, DType::f32);
  k::AdamWStep s = Hyper{}.step;
  s.step = 1000;
  k::adamw(stream, s, to_device(stream, g, DType::f32).tensor, {}, state.p.tensor, state.low.tensor, state.m.tensor,
           state.v.tensor);
  reference.step(s, g, 1.0);
  const HostTensor p = state.master(stream), m = to_host(stream, state.m.tensor), v = to_host(stream, state.v.tensor);
  const double ulp = 1.2e-7;
  for (std::int64_t i = 0; i < n; ++i) {
    ASSERT_NEAR(p[i], reference.p[i], ulp * (std::fabs(reference.p[i]) + 0.01)) << i;
    ASSERT_NEAR(m[i], reference.m[i], ulp * (std::fabs(reference.m[i]) + 0.2)) << i;
    ASSERT_NEAR(v[i], reference.v[i], 4 * ulp * reference.v[i]) << i;
  }
}

TEST(AdamW, NanScaleLeavesEverythingUntouched) {
  Stream stream;
  const std::int64_t n = 8201;
  const HostTensor weights = random_normal({n}, test_seed() + 6);
  const float nan = std::nanf("");
  const DeviceTensor g = to_device(stream, random_normal({n}, test_seed() + 7), DType::f32),
                     scale = from_bits(stream, &nan, 1, DType::f32);
  for (const bool split : {false, true})
    for (const DType moments : {DType::f32, DType::bf16}) {
      State s(stream, weights, split, moments);
      s.m = to_device(stream, random_normal({n}, test_seed() + 8), moments);
      const auto snapshot = [&] {
        std::vector<std::vector<std::uint8_t>> all{raw_bytes(stream, s.p.tensor), raw_bytes(stream, s.m.tensor),
                                                   raw_bytes(stream, s.v.tensor)};
        if (split) all.push_back(raw_bytes(stream, s.low.tensor));
        return all;
      };
      const auto before = snapshot();
      k::adamw(stream, Hyper{}.step, g.tensor, scale.tensor, s.p.tensor, split ? s.low.tensor : Tensor{}, s.m.tensor,
               s.v.tensor);
      EXPECT_EQ(before, snapshot());
      k::adamw(stream, Hyper{}.step, g.tensor, {}, s.p.tensor, split ? s.low.tensor : Tensor{}, s.m.tensor, s.v.tensor);
      EXPECT_NE(before, snapshot()) << "without the NaN the same call updates";
    }
}

struct Rounded {
  HostTensor p, m, v;
};

// One step from zero moments with bf16 state; element i has global index first + i.
Rounded stochastic_step(const Stream& stream, const HostTensor& weights, const HostTensor& g, std::int64_t step,
                        std::uint64_t seed, std::uint64_t first, std::int64_t begin, std::int64_t end) {
  const DeviceTensor p = to_device(stream, weights, DType::bf16), dg = to_device(stream, g, DType::f32);
  const DeviceTensor m = to_device(stream, zeros({g.size()}), DType::bf16),
                     v = to_device(stream, zeros({g.size()}), DType::bf16);
  k::AdamWStep s = Hyper{}.step;
  s.step = step;
  s.seed = seed;
  s.first_index = first + std::uint64_t(begin);
  const auto cut = [&](const DeviceTensor& t) { return t.tensor.slice(0, begin, end); };
  k::adamw(stream, s, cut(dg), {}, cut(p), {}, cut(m), cut(v));
  return {to_host(stream, cut(p)), to_host(stream, cut(m)), to_host(stream, cut(v))};
}

TEST(AdamW, StochasticRoundingIsUnbiased) {
  Stream stream;
  const std::int64_t n = 200000;
  // One value everywhere: its mean over many elements must come out, though bf16 holds only its two neighbours.
  HostTensor g = zeros({n}), weights = zeros({n});
  for (double& x : g.v) x = 1.2345;
  for (double& x : weights.v) x = 0.5;
  const Rounded got = stochastic_step(stream, weights, g, 7, test_seed(), 5, 0, n);
  Reference want{weights, zeros({n}), zeros({n})};
  k::AdamWStep s = Hyper{}.step;
  s.step = 7;
  want.step(s, g.rounded(DType::f32), 1.0);
  const auto expect_mean = [&](const HostTensor& t, double value) {
    const double below = double(std::bit_cast<float>(std::bit_cast<std::uint32_t>(float(value)) & 0xffff0000u));
    const double above =
        double(std::bit_cast<float>((std::bit_cast<std::uint32_t>(float(value)) & 0xffff0000u) + 0x10000u));
    double mean = 0;
    for (double x : t.v) {
      ASSERT_TRUE(x == below || x == above) << x;
      mean += x / double(n);
    }
    // Six standard errors of a coin between two neighbours; to nearest would be off by up to half the distance.
    const double up = (value - below) / (above - below);
    EXPECT_NEAR(mean, value, 6 * (above - below) * std::sqrt(up * (1 - up) / double(n)) + 1e-7 * value);
  };
  expect_mean(got.m, want.m[0]);
  expect_mean(got.v, want.v[0]);
  expect_mean(got.p, want.p[0]);
}

TEST(AdamW, RandomBitsBelongToElementStepAndSeed) {
  Stream stream;
  const std::int64_t n = 8211;
  const HostTensor g = random_normal({n}, test_seed() + 9), w = random_normal({n}, test_seed() + 10);
  const std::uint64_t first = (std::uint64_t(1) << 33) + 16;
  const Rounded whole = stochastic_step(stream, w, g, 3, 99, first, 0, n);
  for (const auto& [begin, end] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, n}, {8, 4096}, {3, 77}, {4097, n}}) {
    const Rounded part = stochastic_step(stream, w, g, 3, 99, first, begin, end);
    for (std::int64_t i = begin; i < end; ++i) {
      ASSERT_EQ(part.p[i - begin], whole.p[i]) << i;
      ASSERT_EQ(part.m[i - begin], whole.m[i]) << i;
      ASSERT_EQ(part.v[i - begin], whole.v[i]) << i;
    }
  }
  EXPECT_NE(stochastic_step(stream, w, g, 3, 98, first, 0, n).m.v, whole.m.v) << "another seed";
  EXPECT_NE(stochastic_step(stream, w, g, 3, 99, first + 8, 0, n).m.v, whole.m.v) << "other elements";
  const DeviceTensor zero_g = to_device(stream, zeros({n}), DType::f32);
  std::vector<HostTensor> decayed;
  for (std::int64_t step : {4, 5}) {
    const DeviceTensor p = to_device(stream, w, DType::bf16), m = to_device(stream, zeros({n}), DType::f32),
                       v = to_device(stream, zeros({n}), DType::f32);
    k::AdamWStep s = Hyper{}.step;
    s.step = step;
    k::adamw(stream, s, zero_g.tensor, {}, p.tensor, {}, m.tensor, v.tensor);
    decayed.push_back(to_host(stream, p.tensor));
  }
  EXPECT_NE(decayed[0].v, decayed[1].v) << "the same update in another step";
}

TEST(AdamW, Bf16WeightsRoundToNearestOnRequest) {
  Stream stream;
  const std::int64_t n = 1001;
  const HostTensor w = random_normal({n}, test_seed() + 11).rounded(DType::bf16),
                   g = random_normal({n}, test_seed() + 12).rounded(DType::f32);
  const DeviceTensor p = to_device(stream, w, DType::bf16), dg = to_device(stream, g, DType::f32);
  State exact(stream, w, false, DType::f32), moments(stream, w, false, DType::f32);
  k::AdamWStep s = Hyper{}.step;
  s.stochastic_rounding = false;
  k::adamw(stream, s, dg.tensor, {}, p.tensor, {}, moments.m.tensor, moments.v.tensor);
  k::adamw(stream, s, dg.tensor, {}, exact.p.tensor, {}, exact.m.tensor, exact.v.tensor);
  EXPECT_TRUE(close(to_host(stream, p.tensor), exact.master(stream).rounded(DType::bf16), 0.0));
}

TEST(AdamW, WrongOperandsThrow) {
  Stream stream;
  const DeviceTensor f = empty_device({8}, DType::f32), b = empty_device({8}, DType::bf16),
                     low = empty_device({8}, DType::u16);
  const DeviceTensor longer = empty_device({9}, DType::f32);
  k::AdamWStep s = Hyper{}.step;
  EXPECT_THROW(k::adamw(stream, s, f.tensor, {}, f.tensor, low.tensor, f.tensor, f.tensor), Error) << "low beside f32";
  EXPECT_THROW(k::adamw(stream, s, longer.tensor, {}, f.tensor, {}, f.tensor, f.tensor), Error);
  EXPECT_THROW(k::adamw(stream, s, f.tensor, {}, f.tensor, {}, f.tensor, b.tensor), Error) << "moments of two dtypes";
  s.step = 0;
  EXPECT_THROW(k::adamw(stream, s, f.tensor, {}, f.tensor, {}, f.tensor, f.tensor), Error) << "step counts from 1";
  s.step = 1;
  s.beta1 = 1.0f;
  EXPECT_THROW(k::adamw(stream, s, f.tensor, {}, f.tensor, {}, f.tensor, f.tensor), Error);
  EXPECT_THROW(k::split_master(stream, f.tensor, f.tensor, low.tensor), Error);
}

}  // namespace
}  // namespace mylos
