// Attention against an fp64 reference with an analytic gradient (itself held by finite differences), for every
// provider.
#include "kernels/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "attention_run.hpp"
#include "base/error.hpp"
#include "kernels/attention/providers.hpp"
#include "kernels/attention/vector_math.hpp"
#include "support/host_tensor.hpp"
#include "tensor/async.hpp"

namespace mylos::test {
namespace {

using kernels::AttentionShape;
using kernels::attention::Provider;

class Attention : public ::testing::TestWithParam<std::tuple<Provider, DType>> {
 protected:
  void SetUp() override {
    if (provider() == Provider::cpu && device_info().is_gpu)
      GTEST_SKIP() << "the CPU provider cannot see a GPU's memory";
  }
  Provider provider() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  void expect_reference(const AttentionShape& s, bool documents, Memory memory, std::uint64_t seed) const {
    SCOPED_TRACE(::testing::Message() << "B " << s.batch << " S " << s.sequence << " H " << s.heads << " K "
                                      << s.kv_heads << " h " << s.head_size << (documents ? " documents" : "")
                                      << (memory == Memory::fused ? " fused" : ""));
    const Values x = rounded(random_values(s, seed), dtype());
    const std::vector<std::int32_t> starts = documents ? random_documents(s, seed + 9) : std::vector<std::int32_t>{};
    expect_close(run(provider(), s, x, starts, dtype(), memory), reference(s, x, starts, dtype()), dtype());
  }
};

TEST_P(Attention, MatchesReferenceForEverySequenceLength) {
  std::uint64_t seed = test_seed();
  for (const std::int64_t S : {1, 5, 37, 64, 130, 257})
    for (const bool documents : {false, true}) expect_reference({2, S, 4, 1, 16}, documents, Memory::fused, seed += 10);
}

TEST_P(Attention, MatchesReferenceForEveryHeadSize) {
  std::uint64_t seed = test_seed() + 1000;
  for (const std::int64_t h : {1, 8, 16, 64, 80, 128, 200, 256})
    expect_reference({1, 97, 2, 1, h}, h == 80, Memory::fused, seed += 10);
}

TEST_P(Attention, MatchesReferenceForEveryGrouping) {
  std::uint64_t seed = test_seed() + 2000;
  for (const auto& [H, K] : {std::pair{1, 1}, std::pair{4, 1}, std::pair{6, 2}, std::pair{3, 3}})
    for (const Memory memory : {Memory::fused, Memory::dense})
      expect_reference({3, 130, H, K, 64}, true, memory, seed += 10);
}

TEST_P(Attention, OneDocumentIsNoneToTheBit) {
  const AttentionShape s{2, 150, 4, 2, 24};
  const Values x = random_values(s, test_seed());
  const std::vector<std::int32_t> one(std::size_t(s.batch * s.sequence), 0);
  expect_same_bits(run(provider(), s, x, one, dtype(), Memory::fused),
                   run(provider(), s, x, {}, dtype(), Memory::fused));
}

TEST_P(Attention, SingleTokenDocumentsReturnTheirValue) {
  const AttentionShape s{1, 70, 2, 2, 16};
  const Values x = rounded(random_values(s, test_seed()), dtype());
  std::vector<std::int32_t> starts(std::size_t(s.sequence));
  for (std::size_t i = 0; i < starts.size(); ++i) starts[i] = std::int32_t(i);
  const Results r = run(provider(), s, x, starts, dtype(), Memory::dense);
  EXPECT_EQ(r.out.v, x.v.v);
  EXPECT_TRUE(close(r.dv, x.dout, tolerance_of(dtype())));
  for (const double d : r.dk.v) EXPECT_LT(std::abs(d), dtype() == DType::f32 ? 1e-5 : 1e-2);
}

TEST_P(Attention, DocumentsAreIndependent) {
  // The second document alone, as its own sequence, gives what it gives behind another.
  const AttentionShape s{1, 190, 4, 2, 64}, tail_shape{1, 101, 4, 2, 64};
  const std::int32_t cut = std::int32_t(s.sequence - tail_shape.sequence);
  const Values x = rounded(random_values(s, test_seed()), dtype());
  std::vector<std::int32_t> starts(std::size_t(s.sequence), 0);
  std::fill(starts.begin() + cut, starts.end(), cut);
  const auto tail = [&](const HostTensor& t) {
    HostTensor part = zeros({1, tail_shape.sequence, t.shape[2], t.shape[3]});
    std::copy(t.v.begin() + cut * t.shape[2] * t.shape[3], t.v.end(), part.v.begin());
    return part;
  };
  const Results both = run(provider(), s, x, starts, dtype(), Memory::dense);
  const Results alone =
      run(provider(), tail_shape, {tail(x.q), tail(x.k), tail(x.v), tail(x.dout)}, {}, dtype(), Memory::dense);
  EXPECT_TRUE(close(tail(both.out), alone.out, tolerance_of(dtype())));
  EXPECT_TRUE(close(tail(both.dq), alone.dq, tolerance_of(dtype())));
  EXPECT_TRUE(close(tail(both.dk), alone.dk, tolerance_of(dtype())));
  EXPECT_TRUE(close(tail(both.dv), alone.dv, tolerance_of(dtype())));
}

TEST_P(Attention, RepeatsToTheBit) {
  for (const AttentionShape s : {AttentionShape{1, 300, 3, 1, 48}, AttentionShape{5, 200, 8, 8, 32}}) {
    const Values x = random_values(s, test_seed());
    const std::vector<std::int32_t> starts = random_documents(s, test_seed() + 1);
    const Results first = run(provider(), s, x, starts, dtype(), Memory::fused);
    for (int again = 0; again < 3; ++again)
      expect_same_bits(first, run(provider(), s, x, starts, dtype(), Memory::fused));
  }
}

TEST_P(Attention, StaysDeterministicWhereItNeedNotBe) {
  const AttentionShape s{2, 140, 4, 2, 32};
  const Values x = random_values(s, test_seed());
  expect_same_bits(run(provider(), s, x, {}, dtype(), Memory::fused),
                   run(provider(), s, x, {}, dtype(), Memory::fused, {.deterministic = false}));
}

TEST_P(Attention, ExtremeScoresStayFinite) {
  // Scores of several thousand: one key takes everything, exponentials of the others vanish.
  const AttentionShape s{1, 200, 2, 1, 64};
  const Values x = rounded(random_values(s, test_seed(), 60.0), dtype());
  const Results r = run(provider(), s, x, random_documents(s, test_seed()), dtype(), Memory::fused);
  for (const HostTensor* t : {&r.out, &r.lse, &r.dq, &r.dk, &r.dv})
    for (const double value : t->v) ASSERT_TRUE(std::isfinite(value));
  const Results want = reference(s, x, random_documents(s, test_seed()));
  EXPECT_TRUE(close(r.lse, want.lse, tolerance_of(DType::f32)));
}

TEST_P(Attention, NanReachesEveryQueryThatSeesIt) {
  const AttentionShape s{1, 140, 1, 1, 16};
  Values x = random_values(s, test_seed());
  const std::int64_t bad = 100;
  x.q[bad * 16 + 3] = std::numeric_limits<double>::quiet_NaN();
  x.k[bad * 16 + 3] = std::numeric_limits<double>::quiet_NaN();
  const Results r = run(provider(), s, x, {}, dtype(), Memory::dense);
  for (std::int64_t i = 0; i < s.sequence; ++i) EXPECT_EQ(std::isnan(r.out[i * 16]), i >= bad) << i;
}

INSTANTIATE_TEST_SUITE_P(All, Attention,
                         ::testing::Combine(::testing::Values(Provider::cpu, Provider::portable),
                                            ::testing::Values(DType::f32, DType::bf16)),
                         [](const auto& p) {
                           return std::string(std::get<0>(p.param) == Provider::cpu ? "cpu_" : "portable_") +
                                  std::string(name_of(std::get<1>(p.param)));
                         });

TEST(AttentionCudnn, MatchesReferenceAndRepeats) {
  std::uint64_t seed = test_seed() + 3000;
  for (const AttentionShape s : {AttentionShape{2, 130, 4, 2, 64}, AttentionShape{1, 257, 6, 2, 128},
                                 AttentionShape{3, 64, 4, 4, 80}, AttentionShape{2, 5, 2, 1, 32}})
    for (const Memory memory : {Memory::fused, Memory::dense}) {
      if (!kernels::attention::has_provider(Provider::cudnn, s, DType::bf16))
        GTEST_SKIP() << "cuDNN is not in this build or not on this device";
      SCOPED_TRACE(::testing::Message() << "S " << s.sequence << " h " << s.head_size);
      const Values x = rounded(random_values(s, seed += 10), DType::bf16);
      const Results first = run(Provider::cudnn, s, x, {}, DType::bf16, memory);
      expect_close(first, reference(s, x, {}, DType::bf16), DType::bf16);
      expect_same_bits(first, run(Provider::cudnn, s, x, {}, DType::bf16, memory));
      const Results any_order = run(Provider::cudnn, s, x, {}, DType::bf16, memory, {.deterministic = false});
      expect_close(any_order, reference(s, x, {}, DType::bf16), DType::bf16);
      EXPECT_EQ(any_order.out.v, first.out.v);
    }
}

TEST(AttentionWarpgroups, MatchReferenceAndRepeatKeysAndValues) {
  std::uint64_t seed = test_seed() + 6000;
  for (const AttentionShape s :
       {AttentionShape{2, 130, 4, 2, 128}, AttentionShape{1, 257, 6, 2, 128}, AttentionShape{3, 64, 4, 4, 128},
        AttentionShape{2, 5, 2, 1, 128}, AttentionShape{1, 640, 3, 3, 128}, AttentionShape{5, 128, 16, 8, 128},
        AttentionShape{2, 130, 4, 2, 64}, AttentionShape{1, 257, 6, 2, 64}, AttentionShape{3, 64, 4, 4, 64},
        AttentionShape{2, 5, 2, 1, 64}, AttentionShape{2, 191, 3, 1, 64}, AttentionShape{1, 640, 3, 3, 64},
        AttentionShape{5, 128, 16, 8, 64}, AttentionShape{2, 385, 3, 3, 64}, AttentionShape{1, 1023, 2, 1, 64},
        // More blocks of keys than multiprocessors: of one step, of one and two, of up to three with two heads each.
        AttentionShape{40, 100, 8, 8, 64}, AttentionShape{24, 130, 8, 8, 64}, AttentionShape{20, 300, 6, 3, 64}})
    for (const Memory memory : {Memory::fused, Memory::dense}) {
      if (!kernels::attention::has_provider(Provider::warpgroups, s, DType::bf16))
        GTEST_SKIP() << "warpgroups are not in this build or not on this device";
      SCOPED_TRACE(::testing::Message() << "B " << s.batch << " S " << s.sequence << " heads " << s.heads << "/"
                                        << s.kv_heads << " of " << s.head_size);
      const Values x = rounded(random_values(s, seed += 10), DType::bf16);
      const Results first = run(Provider::warpgroups, s, x, {}, DType::bf16, memory),
                    again = run(Provider::warpgroups, s, x, {}, DType::bf16, memory);
      expect_close(first, reference(s, x, {}, DType::bf16), DType::bf16);
      EXPECT_EQ(first.dk.v, again.dk.v);
      EXPECT_EQ(first.dv.v, again.dv.v);
    }
}

TEST(AttentionWarpgroups, AreTakenForPlainBatchesInAnyOrderAlone) {
  using kernels::attention::backward_provider;
  const AttentionShape s{1, 256, 4, 2, 128};
  const bool there = kernels::attention::has_provider(Provider::warpgroups, s, DType::bf16);
  EXPECT_EQ(backward_provider(s, DType::bf16, {}, {.deterministic = false}) == Provider::warpgroups, there);
  EXPECT_NE(backward_provider(s, DType::bf16, {}, {}), Provider::warpgroups);
  const std::int64_t from = kernels::attention::warpgroups::faster_from(64);
  const auto of_64 = [&](std::int64_t sequence) {
    return backward_provider({1, sequence, 4, 2, 64}, DType::bf16, {}, {.deterministic = false});
  };
  EXPECT_EQ(of_64(from) == Provider::warpgroups, there);
  EXPECT_NE(of_64(from - 1), Provider::warpgroups);
  EXPECT_NE(backward_provider({1, 1024, 4, 2, 80}, DType::bf16, {}, {.deterministic = false}), Provider::warpgroups);
  EXPECT_NE(backward_provider(s, DType::f32, {}, {.deterministic = false}), Provider::warpgroups);
  const DeviceTensor start = empty_device({1, 256}, DType::i32);
  const kernels::AttentionDocuments documents(start.tensor);
  EXPECT_NE(backward_provider(s, DType::bf16, documents, {.deterministic = false}), Provider::warpgroups);
}

TEST(AttentionGraph, RunsFromARecordingToTheBit) {
  if (!Graph::available()) GTEST_SKIP() << "nothing to record on this device";
  const AttentionShape s{2, 130, 4, 2, 64};
  const Stream stream;
  const Values x = random_values(s, test_seed());
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const DeviceTensor q = to_device(stream, x.q, dtype), k = to_device(stream, x.k, dtype),
                       v = to_device(stream, x.v, dtype), dout = to_device(stream, x.dout, dtype);
    const DeviceTensor out = empty_device(x.q.shape, dtype), dq = empty_device(x.q.shape, dtype),
                       dk = empty_device(x.k.shape, dtype), dv = empty_device(x.k.shape, dtype),
                       lse = empty_device({s.batch, s.heads, s.sequence}, DType::f32);
    const auto space = [&](bool backward) {
      return empty_device({std::max<std::int64_t>(kernels::attention_workspace(s, dtype, backward), 1)}, DType::u8);
    };
    const DeviceTensor forward_space = space(false), backward_space = space(true);
    const auto work = [&] {
      kernels::attention_forward(stream, q.tensor, k.tensor, v.tensor, {}, forward_space.tensor, out.tensor,
                                 lse.tensor);
      kernels::attention_backward(stream, q.tensor, k.tensor, v.tensor, {}, out.tensor, lse.tensor, dout.tensor,
                                  backward_space.tensor, dq.tensor, dk.tensor, dv.tensor);
    };
    const auto results = [&] {
      std::vector<std::vector<std::uint8_t>> all;
      for (const DeviceTensor* t : {&out, &lse, &dq, &dk, &dv}) all.push_back(raw_bytes(stream, t->tensor));
      return all;
    };
    work();
    const auto by_hand = results();
    const Graph graph(stream, work);
    for (const DeviceTensor* t : {&out, &lse, &dq, &dk, &dv}) fill_zero(stream, t->tensor);
    graph.launch(stream);
    EXPECT_EQ(results(), by_hand);
  }
}

TEST(AttentionReference, GradientIsThatOfFiniteDifferences) {
  const AttentionShape s{1, 9, 4, 2, 6};
  Values x = random_values(s, test_seed());
  const std::vector<std::int32_t> starts = random_documents(s, test_seed() + 5);
  const Results exact = reference(s, x, starts);
  const auto loss = [&] {
    const Results r = reference(s, x, starts);
    double sum = 0;
    for (std::int64_t i = 0; i < r.out.size(); ++i) sum += r.out[i] * x.dout[i];
    return sum;
  };
  const auto differences = [&](HostTensor& t) {
    HostTensor d = zeros(t.shape);
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const double kept = t[i], step = 1e-5;
      t[i] = kept + step;
      const double up = loss();
      t[i] = kept - step;
      d[i] = (up - loss()) / (2 * step);
      t[i] = kept;
    }
    return d;
  };
  EXPECT_TRUE(close(exact.dq, differences(x.q), 1e-8));
  EXPECT_TRUE(close(exact.dk, differences(x.k), 1e-8));
  EXPECT_TRUE(close(exact.dv, differences(x.v), 1e-8));
}

TEST(AttentionVectorMath, PowersOfTwo) {
  using namespace kernels::attention;
  const auto power = [](float x) { return exp2_of(splat(x))[kLanes - 1]; };
  const std::vector<std::int32_t> draw = random_ints(100000, -126 << 20, 127 << 20, test_seed());
  double worst = 0;
  for (const std::int32_t d : draw) {
    const float x = float(d) / float(1 << 20);
    worst = std::max(worst, std::abs(double(power(x)) / std::exp2(double(x)) - 1.0));
  }
  EXPECT_LT(worst, 1.5e-7);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(power(0.0f), 1.0f);
  EXPECT_EQ(power(-126.0f), std::numeric_limits<float>::min());
  for (const float x : {-126.5f, -1000.0f, std::numeric_limits<float>::lowest(), -kInfinity})
    EXPECT_EQ(power(x), 0.0f) << x;
  for (const float x : {128.0f, 1e30f, kInfinity}) EXPECT_EQ(power(x), kInfinity) << x;
  EXPECT_TRUE(std::isnan(power(std::numeric_limits<float>::quiet_NaN())));
}

TEST(AttentionChecks, MessagesNameTheTensor) {
  Stream stream;
  const DeviceTensor q = empty_device({1, 4, 3, 8}, DType::f32), k = empty_device({1, 4, 2, 8}, DType::f32);
  const DeviceTensor lse = empty_device({1, 3, 4}, DType::f32), workspace = empty_device({1 << 20}, DType::u8);
  EXPECT_THROW(
      kernels::attention_forward(stream, q.tensor, k.tensor, k.tensor, {}, workspace.tensor, q.tensor, lse.tensor),
      Error);
  const DeviceTensor one = empty_device({1, 4, 1, 8}, DType::f32);
  EXPECT_THROW(kernels::attention_forward(stream, q.tensor, one.tensor, one.tensor, {}, {}, q.tensor, lse.tensor),
               Error);
  EXPECT_THROW(kernels::attention_workspace({1, 4, 1, 1, 257}, DType::f32, false), Error);
}

}  // namespace
}  // namespace mylos::test
