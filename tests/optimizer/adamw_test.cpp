#include "optimizer/adamw.hpp"

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "kernels/adamw/adamw.hpp"
#include "support/host_tensor.hpp"

namespace mylos::optimizer {
namespace {

constexpr std::int64_t kDecayEnd = 1031, kTotal = 1153;

// The equations in fp64.
struct Reference {
  OptimizerConfig c;
  std::vector<double> p, m, v;

  double update(std::int64_t step, double lr, const std::vector<double>& g) {
    double squares = 0;
    for (const double x : g) squares += x * x;
    const double norm = std::sqrt(squares);
    const double scale = c.max_grad_norm > 0 ? std::min(1.0, c.max_grad_norm / (norm + 1e-6)) : 1.0;
    const double c1 = 1 - std::pow(c.beta1, double(step + 1)), c2 = 1 - std::pow(c.beta2, double(step + 1));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double x = g[i] * scale;
      m[i] = c.beta1 * m[i] + (1 - c.beta1) * x;
      v[i] = c.beta2 * v[i] + (1 - c.beta2) * x * x;
      const double decay = std::int64_t(i) < kDecayEnd ? c.weight_decay : 0.0;
      p[i] -= lr * (m[i] / c1 / (std::sqrt(v[i] / c2) + c.eps) + decay * p[i]);
    }
    return norm;
  }
};

struct Run {
  test::HostTensor weights, moment1, moment2;  // weights: the exact masters where there are any
  Reference reference;
  double worst_norm_error = 0;
};

Run twenty_steps(const OptimizerConfig& config, DType storage, DType gradient_dtype) {
  const Stream stream;
  const std::uint64_t seed = test::test_seed();
  const test::HostTensor start = test::random_normal({kTotal}, seed).rounded(storage);
  Arena arena(1 << 20, "test optimizer");
  AdamW adamw(config, {kDecayEnd, kTotal}, storage, 7, arena);
  adamw.initialize(stream);
  const test::DeviceTensor weights = test::to_device(stream, start, storage);

  Run run;
  run.reference = {config, start.v, std::vector<double>(kTotal, 0.0), std::vector<double>(kTotal, 0.0)};
  for (std::int64_t step = 0; step < 20; ++step) {
    // Norms on both sides of the clip; elements of very different sizes.
    test::HostTensor g = test::random_normal({kTotal}, seed + 1 + std::uint64_t(step), step % 2 ? 1.0 : 0.01);
    for (std::int64_t i = 0; i < kTotal; i += 7) g[i] *= 1e-3;
    g = g.rounded(gradient_dtype);
    const test::DeviceTensor gradients = test::to_device(stream, g, gradient_dtype);
    const double lr = 1e-2 / double(step + 1);
    adamw.update(stream, step, lr, weights.tensor, gradients.tensor);
    const double norm = run.reference.update(step, lr, g.v);
    const test::HostTensor got = test::to_host(stream, adamw.norm_and_scale());
    run.worst_norm_error = std::max(run.worst_norm_error, std::abs(got[0] - norm) / norm);
  }
  if (adamw.low()) {
    const test::DeviceTensor master = test::empty_device({kTotal}, DType::f32);
    kernels::join_master(stream, weights.tensor, adamw.low(), master.tensor);
    run.weights = test::to_host(stream, master.tensor);
  } else {
    run.weights = test::to_host(stream, weights.tensor);
  }
  run.moment1 = test::to_host(stream, adamw.moment1());
  run.moment2 = test::to_host(stream, adamw.moment2());
  return run;
}

void expect_equal_to_reference(const Run& run, double weight_tolerance, double moment_tolerance) {
  EXPECT_LT(run.worst_norm_error, 1e-6);
  EXPECT_TRUE(test::close(run.weights, {{kTotal}, run.reference.p}, weight_tolerance));
  EXPECT_TRUE(test::close(run.moment1, {{kTotal}, run.reference.m}, moment_tolerance));
  EXPECT_TRUE(test::close(run.moment2, {{kTotal}, run.reference.v}, moment_tolerance));
}

TEST(AdamW, F32EqualsReference) { expect_equal_to_reference(twenty_steps({}, DType::f32, DType::f32), 1e-6, 2e-6); }

TEST(AdamW, Bf16WithExactMasterEqualsReference) {
  expect_equal_to_reference(twenty_steps({.master = Master::exact}, DType::bf16, DType::f32), 1e-6, 2e-6);
  expect_equal_to_reference(twenty_steps({.master = Master::exact}, DType::bf16, DType::bf16), 1e-6, 2e-6);
}

TEST(AdamW, Bf16Moments) {
  // Twenty stochastic roundings of 2^-8 relative each; the weights see their effect through lr (at most 0.036 in sum).
  expect_equal_to_reference(twenty_steps({.moments = DType::bf16}, DType::f32, DType::f32), 5e-4, 2e-2);
}

TEST(AdamW, Bf16WithoutMasterIsRounded) {
  // Each step may move a weight by one bf16 unit (2^-8 relative): a random walk of twenty steps.
  expect_equal_to_reference(twenty_steps({.master = Master::none}, DType::bf16, DType::f32), 2e-2, 2e-6);
}

TEST(AdamW, NoClip) {
  expect_equal_to_reference(twenty_steps({.max_grad_norm = 0.0}, DType::f32, DType::f32), 1e-6, 2e-6);
}

TEST(AdamW, OnlyMatricesDecay) {
  const Stream stream;
  const test::HostTensor start = test::random_normal({kTotal}, test::test_seed());
  Arena arena(1 << 20, "test optimizer");
  AdamW adamw({.weight_decay = 0.5}, {kDecayEnd, kTotal}, DType::f32, 7, arena);
  adamw.initialize(stream);
  const test::DeviceTensor weights = test::to_device(stream, start, DType::f32),
                           gradients = test::to_device(stream, test::zeros({kTotal}), DType::f32);
  adamw.update(stream, 0, 0.1, weights.tensor, gradients.tensor);
  const test::HostTensor got = test::to_host(stream, weights.tensor);
  for (std::int64_t i = 0; i < kTotal; ++i) {
    const double want = start.rounded(DType::f32)[i] * (i < kDecayEnd ? 1.0 - 0.1 * 0.5 : 1.0);
    ASSERT_NEAR(got[i], want, 1e-6 * std::abs(want)) << "element " << i;
  }
}

TEST(AdamW, ANormThatIsNotFiniteStopsAllUpdates) {
  const Stream stream;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    test::HostTensor g = test::random_normal({kTotal}, test::test_seed());
    Arena arena(1 << 20, "test optimizer");
    AdamW adamw({}, {kDecayEnd, kTotal}, DType::bf16, 7, arena);
    adamw.initialize(stream);
    const test::DeviceTensor weights = test::to_device(stream, g, DType::bf16),
                             good = test::to_device(stream, g, DType::f32);
    adamw.update(stream, 0, 1e-3, weights.tensor, good.tensor);
    const auto state = [&] {
      return std::vector<std::vector<std::uint8_t>>{
          test::raw_bytes(stream, weights.tensor), test::raw_bytes(stream, adamw.moment1()),
          test::raw_bytes(stream, adamw.moment2()), test::raw_bytes(stream, adamw.low())};
    };
    const auto before = state();
    g[kTotal / 2] = bad;
    const test::DeviceTensor broken = test::to_device(stream, g, DType::f32);
    adamw.update(stream, 1, 1e-3, weights.tensor, broken.tensor);
    EXPECT_EQ(state(), before);
    const test::HostTensor norm_and_scale = test::to_host(stream, adamw.norm_and_scale());
    EXPECT_FALSE(std::isfinite(norm_and_scale[0]));
    EXPECT_TRUE(std::isnan(norm_and_scale[1]));
    adamw.update(stream, 1, 1e-3, weights.tensor, good.tensor);
    EXPECT_EQ(state(), before) << "a step that was queued behind it changes nothing either";
    adamw.initialize(stream);
    adamw.update(stream, 1, 1e-3, weights.tensor, good.tensor);
    EXPECT_NE(state(), before) << "from the start it trains again";
  }
}

TEST(AdamW, PlanIsWhatIsTaken) {
  Arena plan;
  AdamW planned({}, {kDecayEnd, kTotal}, DType::bf16, 7, plan);
  // m and v in f32, low in u16.
  EXPECT_GE(plan.categories().at("optimizer"), kTotal * 10);
  Arena arena(plan.peak_bytes(), "test optimizer");
  EXPECT_NO_THROW(AdamW({}, {kDecayEnd, kTotal}, DType::bf16, 7, arena));
  EXPECT_THROW(AdamW({}, {kTotal, kDecayEnd}, DType::bf16, 7, plan), Error);
}

}  // namespace
}  // namespace mylos::optimizer
