#include "kernels/linear_cross_entropy/linear_cross_entropy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"
#include "support/host_tensor.hpp"

namespace mylos::kernels {
namespace {

using test::DeviceTensor;
using test::HostTensor;
using Labels = std::vector<std::int32_t>;

struct Result {
  HostTensor loss, dx, dw;
};

// In fp64, but for the logits, which the op keeps in x's dtype.
Result reference(const HostTensor& x, const HostTensor& w, const Labels& labels, double grad_scale, DType dtype) {
  const std::int64_t tokens = x.shape[0], width = x.shape[1], vocabulary = w.shape[0];
  Result r{test::zeros({tokens}), test::zeros(x.shape), test::zeros(w.shape)};
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int32_t label = labels[std::size_t(t)];
    if (label < 0) continue;
    HostTensor logits = test::zeros({vocabulary});
    for (std::int64_t v = 0; v < vocabulary; ++v)
      for (std::int64_t d = 0; d < width; ++d) logits[v] += x.at(t, d) * w.at(v, d);
    if (dtype == DType::bf16) logits = logits.rounded(dtype);
    const double top = *std::max_element(logits.v.begin(), logits.v.end());
    double sum = 0;
    for (const double l : logits.v) sum += std::exp(l - top);
    r.loss[t] = top + std::log(sum) - logits[label];
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      const double g = grad_scale * (std::exp(logits[v] - top) / sum - (v == label ? 1.0 : 0.0));
      for (std::int64_t d = 0; d < width; ++d) {
        r.dx.at(t, d) += g * w.at(v, d);
        r.dw.at(v, d) += g * x.at(t, d);
      }
    }
  }
  return r;
}

struct Problem {
  DType dtype;
  HostTensor x, w;
  Labels labels;

  // Logits have a standard deviation of `spread`.
  Problem(std::int64_t tokens, std::int64_t width, std::int64_t vocabulary, DType dtype_, std::uint64_t seed,
          double spread = 1.5)
      : dtype(dtype_),
        x(test::random_normal({tokens, width}, seed).rounded(dtype_)),
        w(test::random_normal({vocabulary, width}, seed + 1, spread / std::sqrt(double(width))).rounded(dtype_)),
        labels(test::random_ints(tokens, 0, std::int32_t(vocabulary), seed + 2)) {}
};

struct Options {
  std::int64_t chunk;
  float grad_scale = 1.0f;
  DType dw = DType::f32;
  const HostTensor* accumulate_on = nullptr;
  bool in_place = false;
};

struct Queue : Stream {};

Result run(const Queue& queue, const Problem& p, const Options& o) {
  const std::int64_t tokens = p.x.shape[0], vocabulary = p.w.shape[0];
  const DeviceTensor x = to_device(queue, p.x, p.dtype), w = to_device(queue, p.w, p.dtype),
                     labels = test::to_device(queue, p.labels, {tokens});
  const DeviceTensor loss = test::empty_device({tokens}, DType::f32), other = test::empty_device(p.x.shape, p.dtype);
  const DeviceTensor dw =
      o.accumulate_on ? to_device(queue, *o.accumulate_on, o.dw) : test::empty_device(p.w.shape, o.dw);
  const DeviceTensor workspace =
      test::empty_device({linear_cross_entropy_workspace(std::min(o.chunk, tokens), vocabulary, p.dtype)}, DType::u8);
  const Tensor dx = o.in_place ? x.tensor : other.tensor;
  const DeviceTensor grad_scale = test::empty_device({1}, DType::f32);
  upload(queue, &o.grad_scale, sizeof(float), grad_scale.tensor);
  linear_cross_entropy_backward(queue, x.tensor, w.tensor, labels.tensor, grad_scale.tensor, o.accumulate_on != nullptr,
                                o.chunk, workspace.tensor, loss.tensor, dx, dw.tensor);
  return {test::to_host(queue, loss.tensor), test::to_host(queue, dx), test::to_host(queue, dw.tensor)};
}

HostTensor run_forward(const Queue& queue, const Problem& p, std::int64_t chunk) {
  const std::int64_t tokens = p.x.shape[0];
  const DeviceTensor x = to_device(queue, p.x, p.dtype), w = to_device(queue, p.w, p.dtype),
                     labels = test::to_device(queue, p.labels, {tokens});
  const DeviceTensor loss = test::empty_device({tokens}, DType::f32);
  const DeviceTensor workspace =
      test::empty_device({linear_cross_entropy_workspace(std::min(chunk, tokens), p.w.shape[0], p.dtype)}, DType::u8);
  linear_cross_entropy_forward(queue, x.tensor, w.tensor, labels.tensor, chunk, workspace.tensor, loss.tensor);
  return test::to_host(queue, loss.tensor);
}

// A bf16 logit near a rounding boundary may fall on either side of the reference's: 2^-9 of a logit of 1.5 or so,
// averaged out over tokens in the norm. Gradients are rounded to bf16 once as logits' gradients and once as dx.
double loss_tolerance(DType dtype) { return dtype == DType::bf16 ? 1e-3 : 1e-6; }
double gradient_tolerance(DType dtype) { return dtype == DType::bf16 ? 6e-3 : 2e-6; }

class LinearCrossEntropy : public ::testing::TestWithParam<DType> {
 protected:
  Queue queue;
  std::uint64_t seed = test::test_seed();
};

TEST_P(LinearCrossEntropy, EqualsDoublePrecision) {
  struct Shape {
    std::int64_t tokens, width, vocabulary, chunk;
  };
  // Vocabularies that no pack divides, chunks that do not divide the tokens, one token, one word.
  for (const Shape& s : {Shape{37, 24, 257, 16},
                         {64, 40, 512, 64},
                         {5, 8, 1, 2},
                         {1, 33, 1003, 8},
                         {50, 16, 5003, 7},
                         {19, 64, 7, 100}}) {
    Problem p(s.tokens, s.width, s.vocabulary, GetParam(), seed += 10);
    for (std::int64_t t = 2; t < s.tokens; t += 5) p.labels[std::size_t(t)] = t % 2 ? -1 : -100;
    const float grad_scale = 1.0f / float(s.tokens);
    const Result want = reference(p.x, p.w, p.labels, grad_scale, p.dtype);
    const Result got = run(queue, p, {.chunk = s.chunk, .grad_scale = grad_scale});
    const std::string shape =
        std::to_string(s.tokens) + " x " + std::to_string(s.width) + " x " + std::to_string(s.vocabulary);
    if (s.vocabulary > 1) {
      EXPECT_TRUE(test::close(got.loss, want.loss, loss_tolerance(p.dtype))) << shape;
      EXPECT_TRUE(test::close(got.dx, want.dx, gradient_tolerance(p.dtype))) << shape;
      EXPECT_TRUE(test::close(got.dw, want.dw, gradient_tolerance(p.dtype))) << shape;
    } else {  // one word is certain: no loss, no gradient
      for (const Result* r : {&got, &want})
        for (const HostTensor* h : {&r->loss, &r->dx, &r->dw})
          for (const double v : h->v) EXPECT_EQ(v, 0.0) << shape;
    }
    EXPECT_EQ(run_forward(queue, p, s.chunk).v, got.loss.v) << shape;
    for (std::size_t t = 0; t < p.labels.size(); ++t) {
      if (p.labels[t] < 0) {
        EXPECT_EQ(got.loss.v[t], 0.0) << t;
      }
    }
  }
}

TEST_P(LinearCrossEntropy, AllLabelsIgnoredGiveExactZeros) {
  Problem p(21, 16, 257, GetParam(), seed + 100);
  std::fill(p.labels.begin(), p.labels.end(), -1);
  const Result got = run(queue, p, {.chunk = 8, .grad_scale = 0.5f});
  for (const HostTensor* h : {&got.loss, &got.dx, &got.dw})
    for (const double v : h->v) ASSERT_EQ(v, 0.0);
}

TEST_P(LinearCrossEntropy, ChunksChangeNothingButRounding) {
  const Problem p(61, 32, 300, GetParam(), seed + 200);
  const Result whole = run(queue, p, {.chunk = 61});
  for (const std::int64_t chunk : {1, 7, 16, 60, 1000}) {
    const Result parts = run(queue, p, {.chunk = chunk});
    EXPECT_TRUE(test::close(parts.loss, whole.loss, loss_tolerance(p.dtype))) << chunk;
    EXPECT_TRUE(test::close(parts.dx, whole.dx, gradient_tolerance(p.dtype))) << chunk;
    EXPECT_TRUE(test::close(parts.dw, whole.dw, gradient_tolerance(p.dtype))) << chunk;
  }
}

TEST_P(LinearCrossEntropy, GradientsAccumulateAndDxMayBeX) {
  const Problem p(45, 24, 130, GetParam(), seed + 300);
  const HostTensor before = test::random_normal(p.w.shape, seed + 303).rounded(DType::f32);
  const Result fresh = run(queue, p, {.chunk = 20});
  const Result added = run(queue, p, {.chunk = 20, .accumulate_on = &before, .in_place = true});
  HostTensor want = fresh.dw;
  for (std::int64_t i = 0; i < want.size(); ++i) want[i] += before[i];
  EXPECT_TRUE(test::close(added.dw, want, 1e-6));
  EXPECT_EQ(added.dx.v, fresh.dx.v);
  EXPECT_EQ(added.loss.v, fresh.loss.v);
}

TEST_P(LinearCrossEntropy, TheGradientOfWMayBeBf16) {
  const Problem p(45, 24, 130, GetParam(), seed + 400);
  const Result want = reference(p.x, p.w, p.labels, 1.0, p.dtype);
  EXPECT_TRUE(test::close(run(queue, p, {.chunk = 45, .dw = DType::bf16}).dw, want.dw, 8e-3));
}

// exp would overflow at 89: only differences from the maximum may be exponentiated.
TEST_P(LinearCrossEntropy, LargeLogitsDoNotOverflow) {
  const Problem p(33, 32, 513, GetParam(), seed + 500, 400.0);
  const Result want = reference(p.x, p.w, p.labels, 1.0, p.dtype);
  const Result got = run(queue, p, {.chunk = 10});
  EXPECT_GT(*std::max_element(want.loss.v.begin(), want.loss.v.end()), 500.0);
  EXPECT_TRUE(test::close(got.loss, want.loss, 4e-3));
  for (const HostTensor* h : {&got.dx, &got.dw})
    for (const double v : h->v) ASSERT_TRUE(std::isfinite(v));
}

TEST_P(LinearCrossEntropy, RunsAgreeToTheBit) {
  const Problem p(100, 64, 515, GetParam(), seed + 600);
  const Result first = run(queue, p, {.chunk = 32});
  for (int i = 0; i < 4; ++i) {
    const Result again = run(queue, p, {.chunk = 32});
    ASSERT_EQ(again.loss.v, first.loss.v);
    ASSERT_EQ(again.dx.v, first.dx.v);
    ASSERT_EQ(again.dw.v, first.dw.v);
  }
}

TEST_P(LinearCrossEntropy, BrokenBatchesAndWeightsShowAsNan) {
  Problem p(6, 8, 31, GetParam(), seed + 700);
  p.labels[3] = 31;  // one beyond the vocabulary
  p.x.at(4, 2) = std::numeric_limits<double>::quiet_NaN();
  const HostTensor loss = run_forward(queue, p, 4);
  for (std::int64_t t = 0; t < 6; ++t) EXPECT_EQ(std::isnan(loss[t]), t == 3 || t == 4) << t;
}

// Rows of the sizes that a GPU team keeps in different places: scratch memory, registers too, and neither; more rows than
// it has teams, and ignored ones between.
TEST_P(LinearCrossEntropy, LongRowsAreReadOnceAndRight) {
  for (const auto& [tokens, vocabulary] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {3, 33001}, {270, 100352}, {2, 140009}, {280, 32003}, {700, 4099}, {1100, 515}, {290, 1031}}) {
    if (test::too_large(tokens * vocabulary)) continue;
    Problem p(tokens, 8, vocabulary, GetParam(), seed += 10);
    for (std::int64_t t = 1; t < tokens; t += 3) p.labels[std::size_t(t)] = -1;
    p.labels[0] = std::int32_t(vocabulary) - 1;
    const Result want = reference(p.x, p.w, p.labels, 0.25, p.dtype),
                 got = run(queue, p, {.chunk = tokens, .grad_scale = 0.25f});
    EXPECT_TRUE(test::close(got.loss, want.loss, loss_tolerance(p.dtype))) << vocabulary;
    EXPECT_TRUE(test::close(got.dx, want.dx, gradient_tolerance(p.dtype))) << vocabulary;
    EXPECT_TRUE(test::close(got.dw, want.dw, gradient_tolerance(p.dtype))) << vocabulary;
    EXPECT_EQ(run_forward(queue, p, tokens).v, got.loss.v) << vocabulary;
    const Result again = run(queue, p, {.chunk = tokens, .grad_scale = 0.25f});
    EXPECT_EQ(again.dx.v, got.dx.v) << vocabulary;
  }
}

// Whatever is left in it, by others or by this op.
TEST_P(LinearCrossEntropy, TheWorkspaceNeedsNoCare) {
  const Problem p(1500, 8, 257, GetParam(), seed + 740);
  const HostTensor want = run_forward(queue, p, 1500);
  const std::int64_t chunk = 700, bytes = linear_cross_entropy_workspace(chunk, 257, p.dtype);
  const DeviceTensor x = to_device(queue, p.x, p.dtype), w = to_device(queue, p.w, p.dtype),
                     labels = test::to_device(queue, p.labels, {1500});
  const DeviceTensor loss = test::empty_device({1500}, DType::f32), workspace = test::empty_device({bytes}, DType::u8);
  const std::vector<std::uint8_t> ones(std::size_t(bytes), 0xff);
  upload(queue, ones.data(), bytes, workspace.tensor);
  for (int i = 0; i < 2; ++i) {
    linear_cross_entropy_forward(queue, x.tensor, w.tensor, labels.tensor, chunk, workspace.tensor, loss.tensor);
    const HostTensor got = test::to_host(queue, loss.tensor);
    EXPECT_TRUE(test::close(got, want, loss_tolerance(p.dtype)));
    fill_zero(queue, loss.tensor);
  }
}

// Numbers of rows below and above those that teams of a GPU begin with; all passes count in one word.
TEST_P(LinearCrossEntropy, ThePassLeavesItsCounterAtZero) {
  constexpr std::int64_t kMost = 1100;
  for (const std::int64_t vocabulary : {64, 40000}) {
    if (vocabulary > 64 && !detail::loss_on_gpu()) continue;  // only a GPU has other teams for longer rows
    const HostTensor z = test::random_normal({kMost, vocabulary}, seed + 745).rounded(GetParam());
    const Labels drawn = test::random_ints(kMost, -1, std::int32_t(vocabulary), seed + 746);
    const DeviceTensor labels = test::to_device(queue, drawn, {kMost}), one = test::empty_device({1}, DType::f32),
                       claims = test::empty_device({1}, DType::i32), loss = test::empty_device({kMost}, DType::f32);
    const float scale = 1;
    upload(queue, &scale, sizeof scale, one.tensor);
    fill_zero(queue, claims.tensor);
    HostTensor all = test::zeros({kMost});  // losses
    for (const std::int64_t tokens : {kMost, std::int64_t(1), std::int64_t(132), std::int64_t(133), std::int64_t(263),
                                      std::int64_t(300), std::int64_t(397), std::int64_t(600), std::int64_t(793)})
      for (const bool with_gradient : {false, true}) {
        const DeviceTensor logits = to_device(queue, z, GetParam());
        const detail::LossRows rows{logits.tensor.data(),
                                    GetParam(),
                                    tokens,
                                    vocabulary,
                                    vocabulary,
                                    labels.tensor.as<std::int32_t>(),
                                    loss.tensor.as<float>(),
                                    claims.tensor.as<std::int32_t>()};
        fill_zero(queue, loss.tensor);
        with_gradient ? detail::softmax_loss_gradient(queue, rows, one.tensor.as<float>())
                      : detail::softmax_loss(queue, rows);
        std::int32_t left = -1;
        download(queue, claims.tensor, &left, sizeof left);
        ASSERT_EQ(left, 0) << tokens << " x " << vocabulary;
        const HostTensor got = test::to_host(queue, loss.tensor);
        if (tokens == kMost && !with_gradient) all = got;
        for (std::int64_t t = 0; t < kMost; ++t) ASSERT_EQ(got[t], t < tokens ? all[t] : 0.0) << t << " of " << tokens;
      }
  }
}

TEST_P(LinearCrossEntropy, ALabelBeyondTheVocabularyMakesItsGradientNan) {
  Problem p(6, 8, 31, GetParam(), seed + 750);
  p.labels[3] = 31;
  const Result got = run(queue, p, {.chunk = 4});
  for (std::int64_t t = 0; t < 6; ++t)
    for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(std::isnan(got.dx.at(t, d)), t == 3) << t;
  for (const double v : got.dw.v) ASSERT_TRUE(std::isnan(v));
}

// Ignored tokens as well: the valid tokens of a step without any are why 1 / their number is not finite.
TEST_P(LinearCrossEntropy, AScaleThatIsNotFiniteMakesAllGradientsNan) {
  Problem p(6, 8, 31, GetParam(), seed + 760);
  p.labels[2] = -1;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Result got = run(queue, p, {.chunk = 4, .grad_scale = bad});
    for (const HostTensor* h : {&got.dx, &got.dw})
      for (const double v : h->v) ASSERT_TRUE(std::isnan(v)) << bad;
    for (const double v : got.loss.v) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST_P(LinearCrossEntropy, GradientsMatchFiniteDifferences) {
  if (GetParam() == DType::bf16) GTEST_SKIP() << "differences of bf16 logits are mostly rounding";
  Problem p(9, 6, 35, GetParam(), seed + 800);
  const Result got = run(queue, p, {.chunk = 4});
  const auto total = [&] {
    const Result r = reference(p.x, p.w, p.labels, 1.0, DType::f64);
    double sum = 0;
    for (const double l : r.loss.v) sum += l;
    return sum;
  };
  const auto difference = [&](double& value) {
    const double kept = value, h = 1e-5;
    value = kept + h;
    const double up = total();
    value = kept - h;
    const double down = total();
    value = kept;
    return (up - down) / (2 * h);
  };
  HostTensor dx = test::zeros(p.x.shape), dw = test::zeros(p.w.shape);
  for (std::int64_t i = 0; i < dx.size(); ++i) dx[i] = difference(p.x[i]);
  for (std::int64_t i = 0; i < dw.size(); ++i) dw[i] = difference(p.w[i]);
  EXPECT_TRUE(test::close(got.dx, dx, 2e-6));
  EXPECT_TRUE(test::close(got.dw, dw, 2e-6));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LinearCrossEntropy, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(LinearCrossEntropyPlan, ChunksCoverTheTokensEvenly) {
  for (const std::int64_t vocabulary : {1LL, 257LL, 32000LL, 128256LL, 1LL << 33})
    for (const std::int64_t tokens : {1LL, 63LL, 64LL, 4096LL, 8192LL, 100003LL}) {
      const std::int64_t chunk = linear_cross_entropy_chunk(tokens, vocabulary);
      ASSERT_GE(chunk, 1);
      ASSERT_LE(chunk, tokens);
      const std::int64_t chunks = (tokens + chunk - 1) / chunk;
      EXPECT_GE(tokens - (chunks - 1) * chunk, chunks == 1 ? 1 : chunk - 64 * chunks)
          << tokens << " tokens in chunks of " << chunk;
    }
}

TEST(LinearCrossEntropyPlan, TheWorkspaceIsLinearInTheChunkAndPast32Bits) {
  const std::int64_t one = linear_cross_entropy_workspace(1 << 15, 128256, DType::bf16),
                     two = linear_cross_entropy_workspace(1 << 16, 128256, DType::bf16);
  EXPECT_EQ(two - one, std::int64_t(1 << 15) * 128256 * 2);
  EXPECT_GT(one, std::int64_t(1) << 32);
}

TEST(LinearCrossEntropyPlan, ASmallWorkspaceIsRefused) {
  Queue queue;
  const Problem p(8, 4, 10, DType::f32, 1);
  const DeviceTensor x = to_device(queue, p.x, p.dtype), w = to_device(queue, p.w, p.dtype),
                     labels = test::to_device(queue, p.labels, {8});
  const DeviceTensor loss = test::empty_device({8}, DType::f32), small = test::empty_device({64}, DType::u8);
  try {
    linear_cross_entropy_forward(queue, x.tensor, w.tensor, labels.tensor, 8, small.tensor, loss.tensor);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the workspace has 64 bytes"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mylos::kernels
