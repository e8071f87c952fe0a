// Every rule against its double-precision reference, and what all of them promise: halting, sharding, planned memory.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "kernels/adamw/adamw.hpp"
#include "optimizer/registry.hpp"
#include "optimizer/schedule_free.hpp"
#include "reference.hpp"
#include "support/host_tensor.hpp"

namespace mylos::optimizer {
namespace {

using test::HostTensor;
constexpr std::int64_t kDecayEnd = 1031, kTotal = 1153;

// Odd sizes; matrices wide, tall and square, two of one shape, one of a single row, with a gap between them.
Parameters parameters() {
  Parameters p{.decay_end = kDecayEnd, .total = kTotal};
  p.matrices = {{128, 13, 7}, {219, 7, 19}, {384, 11, 11}, {505, 1, 29}, {534, 21, 5}, {639, 13, 7}};
  p.hidden = {128, 730};
  p.shard = {0, kTotal};
  return p;
}

bool is_gap(std::int64_t i) { return i >= 352 && i < 384; }

HostTensor gradient_of(std::int64_t step, DType dtype) {
  // Norms on both sides of the clip; elements of very different sizes.
  HostTensor g = test::random_normal({kTotal}, test::test_seed() + 1 + std::uint64_t(step), step % 2 ? 1.0 : 0.01);
  for (std::int64_t i = 0; i < kTotal; i += 7) g[i] *= 1e-3;
  for (std::int64_t i = 0; i < kTotal; ++i)
    if (is_gap(i)) g[i] = 0;
  return g.rounded(dtype);
}

HostTensor start_of(DType storage) {
  HostTensor p = test::random_normal({kTotal}, test::test_seed()).rounded(storage);
  for (std::int64_t i = 0; i < kTotal; ++i)
    if (is_gap(i)) p[i] = 0;
  return p;
}

HostTensor master_of(const Stream& stream, const Optimizer& o, const Tensor& weights) {
  for (const State& s : o.states()) {
    if (s.name != "low") continue;
    const test::DeviceTensor master = test::empty_device({weights.size()}, DType::f32);
    kernels::join_master(stream, weights, s.tensor, master.tensor);
    return test::to_host(stream, master.tensor);
  }
  return test::to_host(stream, weights);
}

// An optimizer in exactly the memory it plans.
struct Made {
  Made(const OptimizerConfig& config, const Parameters& all, DType storage)
      : arena(planned(config, all, storage), "test optimizer") {
    optimizer = make_optimizer(config, all, storage, 7, arena);
  }
  static std::int64_t planned(const OptimizerConfig& config, const Parameters& all, DType storage) {
    Arena plan;
    make_optimizer(config, all, storage, 7, plan);
    return plan.peak_bytes();
  }
  Optimizer* operator->() const { return optimizer.get(); }
  Arena arena;
  std::unique_ptr<Optimizer> optimizer;
};

struct Case {
  const char* name;
  OptimizerConfig config;
  DType storage, gradients;
  // Relative, of how far the weights moved in twenty steps, and of the first state beside them.
  double movement, state;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Rules : public ::testing::TestWithParam<Case> {};

TEST_P(Rules, TwentyStepsFollowTheReference) {
  const Case& c = GetParam();
  const Stream stream;
  const HostTensor start = start_of(c.storage);
  const Made o(c.config, parameters(), c.storage);
  const test::DeviceTensor weights = test::to_device(stream, start, c.storage);
  o->initialize(stream, weights.tensor);
  test::Reference reference(c.config, parameters(), start.v);
  for (std::int64_t step = 0; step < 20; ++step) {
    const HostTensor g = gradient_of(step, c.gradients);
    const double lr = 1e-2 / double(step + 1);
    o->update(stream, step, lr, weights.tensor, test::to_device(stream, g, c.gradients).tensor);
    const double norm = reference.update(step, lr, g.v);
    EXPECT_NEAR(test::to_host(stream, o->norm_and_scale())[0], norm, 1e-6 * norm);
  }
  HostTensor moved = master_of(stream, *o.optimizer, weights.tensor), want{{kTotal}, reference.p};
  for (std::int64_t i = 0; i < kTotal; ++i) {
    moved[i] -= start[i];
    want[i] -= start[i];
    if (is_gap(i)) {
      EXPECT_EQ(moved[i], 0) << "a gap between matrices, element " << i;
    }
  }
  EXPECT_TRUE(test::close(moved, want, c.movement));

  for (const State& s : o->states()) {
    const test::Values* expected = s.name == "moment1" || s.name == "momentum" ? &reference.first
                                   : s.name == "moment2"                       ? &reference.second
                                   : s.name == "z"                             ? &reference.z
                                                                               : nullptr;
    if (expected == nullptr) continue;
    HostTensor part{{s.tensor.size()}, {}};
    for (const FlatRange& r : s.covers)
      part.v.insert(part.v.end(), expected->begin() + r.begin, expected->begin() + r.end);
    EXPECT_TRUE(test::close(test::to_host(stream, s.tensor), part, c.state)) << s.name;
  }
  if (c.config.name != Rule::schedule_free) return;
  const test::DeviceTensor spare = test::empty_device({kTotal}, DType::f32);
  const std::vector<std::uint8_t> training = test::raw_bytes(stream, weights.tensor);
  o->show_average(stream, weights.tensor, spare.tensor);
  const double rounding = c.storage == DType::bf16 ? (c.config.master == Master::exact ? 3e-3 : 2e-2) : 1e-6;
  EXPECT_TRUE(test::close(test::to_host(stream, weights.tensor), {{kTotal}, reference.x}, rounding));
  o->show_training(stream, weights.tensor, spare.tensor);
  EXPECT_EQ(test::raw_bytes(stream, weights.tensor), training) << "the training weights come back to the bit";
}

OptimizerConfig of(Rule rule, DType moments = DType::f32, Master master = Master::exact) {
  return {.name = rule, .master = master, .moments = moments};
}
OptimizerConfig with(OptimizerConfig c, auto change) {
  change(c);
  return c;
}
constexpr auto kExactMuon = [](OptimizerConfig& c) { c.muon_dtype = DType::f32; };

// Exact masters lose 6e-8 of a weight near 1 in each step, of movements near 1e-2. Where one bit decides (the sign of lion), or
// iterations in bf16 amplify their rounding (muon), and with stochastic rounding, only the whole is close.
INSTANTIATE_TEST_SUITE_P(
    All, Rules,
    ::testing::Values(
        Case{"adamw_f32", of(Rule::adamw), DType::f32, DType::f32, 5e-5, 2e-6},
        Case{"adamw_exact", of(Rule::adamw), DType::bf16, DType::bf16, 5e-5, 2e-6},
        Case{"adamw_bf16", of(Rule::adamw, DType::bf16), DType::bf16, DType::f32, 3e-2, 2e-2},
        Case{"lion_f32", of(Rule::lion), DType::f32, DType::f32, 5e-2, 2e-6},
        Case{"lion_exact", of(Rule::lion), DType::bf16, DType::bf16, 5e-2, 2e-6},
        Case{"lion_bf16", of(Rule::lion, DType::bf16), DType::bf16, DType::f32, 0.15, 2e-2},
        Case{"lion_stochastic", of(Rule::lion, DType::bf16, Master::none), DType::bf16, DType::bf16, 0.8, 2e-2},
        Case{"sgd_f32", with(of(Rule::sgd), [](auto& c) { c.nesterov = false; }), DType::f32, DType::f32, 1e-4, 2e-6},
        Case{"sgd_nesterov", of(Rule::sgd), DType::f32, DType::bf16, 1e-4, 2e-6},
        Case{"sgd_exact", of(Rule::sgd), DType::bf16, DType::f32, 1e-4, 2e-6},
        Case{"sgd_bf16", of(Rule::sgd, DType::bf16), DType::bf16, DType::f32, 3e-2, 2e-2},
        Case{"sgd_unclipped", with(of(Rule::sgd), [](auto& c) { c.max_grad_norm = 0; }), DType::f32, DType::f32, 1e-5,
             2e-6},
        Case{"schedule_free_f32", of(Rule::schedule_free), DType::f32, DType::f32, 1e-4, 3e-6},
        Case{"schedule_free_exact", of(Rule::schedule_free), DType::bf16, DType::bf16, 1e-4, 3e-6},
        Case{"schedule_free_bf16", of(Rule::schedule_free, DType::bf16), DType::bf16, DType::f32, 3e-2, 2e-2},
        Case{"schedule_free_stochastic", of(Rule::schedule_free, DType::bf16, Master::none), DType::bf16, DType::bf16,
             0.8, 2e-2},
        Case{"muon_f32", with(of(Rule::muon), kExactMuon), DType::f32, DType::f32, 1e-3, 3e-6},
        Case{"muon_exact", with(of(Rule::muon), kExactMuon), DType::bf16, DType::bf16, 1e-3, 3e-6},
        Case{"muon_spectral",
             with(of(Rule::muon),
                  [](auto& c) {
                    kExactMuon(c), c.muon_scale = MuonScale::spectral, c.nesterov = false, c.muon_adamw = 0.5;
                  }),
             DType::f32, DType::f32, 1e-3, 3e-6},
        Case{"muon_bf16", of(Rule::muon, DType::bf16), DType::bf16, DType::bf16, 0.1, 2e-2}),
    [](const auto& info) { return std::string(info.param.name); });

class EveryRule : public ::testing::TestWithParam<Rule> {};

TEST_P(EveryRule, ANormThatIsNotFiniteStopsAllUpdates) {
  const Stream stream;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Made o(of(GetParam()), parameters(), DType::bf16);
    const test::DeviceTensor weights = test::to_device(stream, start_of(DType::bf16), DType::bf16),
                             good = test::to_device(stream, gradient_of(1, DType::f32), DType::f32);
    o->initialize(stream, weights.tensor);
    o->update(stream, 0, 1e-3, weights.tensor, good.tensor);
    const auto everything = [&] {
      std::vector<std::vector<std::uint8_t>> all{test::raw_bytes(stream, weights.tensor)};
      for (const State& s : o->states()) all.push_back(test::raw_bytes(stream, s.tensor));
      return all;
    };
    const auto before = everything();
    HostTensor g = gradient_of(1, DType::f32);
    g[kTotal / 2] = bad;
    o->update(stream, 1, 1e-3, weights.tensor, test::to_device(stream, g, DType::f32).tensor);
    EXPECT_EQ(everything(), before);
    EXPECT_TRUE(std::isnan(test::to_host(stream, o->norm_and_scale())[1]));
    o->update(stream, 1, 1e-3, weights.tensor, good.tensor);
    EXPECT_EQ(everything(), before) << "a step that was queued behind it changes nothing either";
    o->initialize(stream, weights.tensor);
    o->update(stream, 1, 1e-3, weights.tensor, good.tensor);
    EXPECT_NE(everything(), before) << "from the start it trains again";
  }
}

TEST_P(EveryRule, OnlyMatricesDecay) {
  const Stream stream;
  OptimizerConfig config = of(GetParam());
  config.weight_decay = 0.5;
  const HostTensor start = start_of(DType::f32);
  const Made o(config, parameters(), DType::f32);
  const test::DeviceTensor weights = test::to_device(stream, start, DType::f32),
                           gradients = test::to_device(stream, test::zeros({kTotal}), DType::f32);
  o->initialize(stream, weights.tensor);
  o->update(stream, 0, 0.1, weights.tensor, gradients.tensor);
  const HostTensor got = test::to_host(stream, weights.tensor);
  const double rate = GetParam() == Rule::schedule_free ? 0.1 * std::sqrt(1 - 0.999) : 0.1;
  for (std::int64_t i = 0; i < kTotal; ++i) {
    const double want = start[i] * (i < kDecayEnd ? 1.0 - rate * 0.5 : 1.0);
    ASSERT_NEAR(got[i], want, 1e-6 * std::abs(want)) << "element " << i;
  }
}

TEST_P(EveryRule, ShardsGiveTheBitsOfTheWhole) {
  const Stream stream;
  OptimizerConfig config = of(GetParam(), DType::bf16, Master::none);
  config.max_grad_norm = 0;  // a sharded run adds up the squares between measure() and apply()
  const HostTensor start = start_of(DType::bf16);
  const auto train = [&](const std::vector<FlatRange>& shards) {
    const test::DeviceTensor weights = test::to_device(stream, start, DType::bf16);
    std::vector<std::unique_ptr<Made>> all;
    for (const FlatRange& r : shards) {
      Parameters p = parameters();
      p.shard = r;
      all.push_back(std::make_unique<Made>(config, p, DType::bf16));
      all.back()->optimizer->initialize(stream, weights.tensor.slice(0, r.begin, r.end));
    }
    for (std::int64_t step = 0; step < 3; ++step) {
      const test::DeviceTensor g = test::to_device(stream, gradient_of(step, DType::bf16), DType::bf16);
      for (std::size_t i = 0; i < shards.size(); ++i)
        all[i]->optimizer->update(stream, step, 1e-2, weights.tensor.slice(0, shards[i].begin, shards[i].end),
                                  g.tensor.slice(0, shards[i].begin, shards[i].end));
    }
    return test::raw_bytes(stream, weights.tensor);
  };
  EXPECT_EQ(train({{0, 219}, {219, 505}, {505, 1101}, {1101, kTotal}}), train({{0, kTotal}}));
  if (GetParam() == Rule::muon) {
    EXPECT_THROW(train({{0, 300}, {300, kTotal}}), Error) << "a matrix is orthogonalised as a whole";
  }
}

TEST_P(EveryRule, TakesThePlannedMemoryAndListsItsState) {
  Arena plan;
  const auto planned = make_optimizer(of(GetParam()), parameters(), DType::bf16, 7, plan);
  EXPECT_EQ(plan.categories().size(), 1u);
  std::int64_t listed = 0;
  for (const State& s : planned->states()) {
    listed += s.tensor.bytes();
    std::int64_t covered = 0;
    for (const FlatRange& r : s.covers) covered += r.size();
    EXPECT_EQ(covered, s.covers.empty() ? 0 : s.tensor.size()) << s.name;
  }
  EXPECT_GE(plan.categories().at("optimizer"), listed);
  EXPECT_NO_THROW(Made(of(GetParam()), parameters(), DType::bf16));
  Parameters wrong = parameters();
  wrong.decay_end = kTotal + 1;
  EXPECT_THROW(make_optimizer(of(GetParam()), wrong, DType::bf16, 7, plan), Error);
  wrong = parameters();
  wrong.shard = {5, kTotal + 1};
  EXPECT_THROW(make_optimizer(of(GetParam()), wrong, DType::bf16, 7, plan), Error);
  EXPECT_THROW(planned->state("moment9"), Error);
}

INSTANTIATE_TEST_SUITE_P(All, EveryRule,
                         ::testing::Values(Rule::adamw, Rule::lion, Rule::muon, Rule::schedule_free, Rule::sgd),
                         [](const auto& info) { return std::string(optimizer_names()[std::size_t(info.param)]); });

TEST(ScheduleFree, OneConstantRateGivesThePlainAverageOfZ) {
  const Stream stream;
  // Without bias correction (beta2 = 0) gamma is the rate itself: x is the mean of z_1 ... z_n.
  OptimizerConfig config{
      .name = Rule::schedule_free, .beta1 = 0.7, .beta2 = 0.0, .weight_decay = 0.0, .max_grad_norm = 0};
  const HostTensor start = test::random_normal({64}, test::test_seed());
  const Made o(config, {.decay_end = 64, .total = 64}, DType::f32);
  const test::DeviceTensor weights = test::to_device(stream, start, DType::f32);
  o->initialize(stream, weights.tensor);
  HostTensor sum = test::zeros({64});
  for (std::int64_t step = 0; step < 9; ++step) {
    const HostTensor g = test::random_normal({64}, test::test_seed() + std::uint64_t(step) + 1);
    o->update(stream, step, 0.1, weights.tensor, test::to_device(stream, g, DType::f32).tensor);
    const HostTensor z = test::to_host(stream, o->state("z"));
    for (std::int64_t i = 0; i < 64; ++i) sum[i] += z[i] / 9;
  }
  const test::DeviceTensor spare = test::empty_device({64}, DType::f32);
  o->show_average(stream, weights.tensor, spare.tensor);
  EXPECT_TRUE(test::close(test::to_host(stream, weights.tensor), sum, 1e-6));
  EXPECT_THROW(o->show_average(stream, weights.tensor, test::empty_device({64}, DType::bf16).tensor), Error)
      << "no room";
}

}  // namespace
}  // namespace mylos::optimizer
