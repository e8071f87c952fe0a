#include "data/mixture.hpp"

#include <cmath>
#include <numeric>
#include <random>

#include "data/files.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::test_seed;

std::vector<double> random_weights(std::mt19937_64& gen, std::size_t sources) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < sources; ++i)
    weights.push_back(gen() % 5 == 0 ? 0.0 : std::exp(std::normal_distribution<>(0, 3)(gen)));
  weights[gen() % sources] = 1;
  return weights;
}

TEST(Mixture, WeightsBecomeUnitsOfOneSum) {
  using V = std::vector<std::int64_t>;
  EXPECT_EQ(quantised(std::vector{3.0}), (V{1}));
  EXPECT_EQ(quantised(std::vector{2.0, 0.0, 2.0}), (V{1, 0, 1}));
  EXPECT_EQ(quantised(std::vector{0.75, 0.25}), (V{3, 1}));
  EXPECT_EQ(quantised(std::vector{1e300, 1e300}), (V{1, 1})) << "no sum overflows";
  EXPECT_EQ(quantised(std::vector{1.0, 1e-9}), (V{65535, 1})) << "what is above 0 stays above";
  std::mt19937_64 gen(test_seed());
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<double> weights = random_weights(gen, 1 + gen() % (trial % 20 == 0 ? 4096 : 20));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const V units = quantised(weights);
    const std::int64_t period = std::accumulate(units.begin(), units.end(), std::int64_t(0));
    EXPECT_EQ(kWeightUnits % period, 0);
    int raised = 0;
    for (const double w : weights) raised += w > 0 && w / sum * 65536 < 1;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(units[i] > 0, weights[i] > 0);
      EXPECT_LT(std::abs(double(units[i]) / double(period) - weights[i] / sum), (1.001 + raised) / 65536);
    }
  }
}

// The rule of the house: k places into a phase every source is within one sample of its share; by counting.
TEST(Mixture, EveryPrefixIsWithinOneSampleOfTheShares) {
  std::mt19937_64 gen(test_seed() + 1);
  for (int trial = 0; trial < 60; ++trial) {
    const Schedule s(quantised(random_weights(gen, 1 + gen() % (trial % 15 == 0 ? 1000 : 30))));
    const std::int64_t period = s.period();
    const auto n = std::int64_t(s.units().size());
    std::vector<std::int64_t> count(std::size_t(n), 0);
    for (std::int64_t place = 0; place < period + period / 3; ++place) {
      const auto [source, index] = s.at(place);
      ASSERT_EQ(index, count[std::size_t(source)]) << "the answer of one place equals counting";
      ++count[std::size_t(source)];
      if (n <= 30 || place % 97 == 0) {
        for (std::size_t i = 0; i < count.size(); ++i)  // |count - k w / P| < 1 in integers
          ASSERT_LT(std::abs(count[i] * period - (place + 1) * s.units()[i]), period) << "source " << i;
      }
      if (place + 1 == period) {
        ASSERT_EQ(count, s.units());
      }
      if (place % 1009 == 0) {
        ASSERT_EQ(s.before(place + 1), count);
      }
    }
  }
}

TEST(Mixture, AnyWindowOfAPhaseIsWithinTwoSamples) {
  std::mt19937_64 gen(test_seed() + 2);
  const Mixture m({{0, random_weights(gen, 7)}, {123'457, random_weights(gen, 7)}});
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t phase = trial % 2;
    const std::int64_t a = phase * 123'457 + std::int64_t(gen() % 100'000);
    const std::int64_t b = a + std::int64_t(gen() % (phase ? 1'000'000'000'000 : 23'000));
    const auto before_a = m.before(a), before_b = m.before(b);
    for (std::size_t i = 0; i < 7; ++i)
      ASSERT_LT(std::abs(double(before_b[i] - before_a[i]) - double(b - a) * m.weight(phase, i)), 2.0);
  }
}

TEST(Mixture, PhasesGoOnWhereTheEarlierOnesStopped) {
  std::mt19937_64 gen(test_seed() + 3);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<MixturePhase> phases;
    std::int64_t start = 0;
    for (int p = 0; p < 5; ++p) {
      phases.push_back({start, random_weights(gen, 6)});
      start += 1 + std::int64_t(gen() % 3000);
    }
    const Mixture m(phases);
    std::vector<std::int64_t> count(6, 0);
    for (std::int64_t place = 0; place < start + 1000; ++place) {
      ASSERT_EQ(m.before(place), count);
      const auto [source, index] = m.at(place);
      ASSERT_EQ(index, count[std::size_t(source)]++) << "an index is given once, in order";
      const std::size_t phase = m.phase_at(place);
      ASSERT_GE(place, phases[phase].start);
      ASSERT_TRUE(phase + 1 == phases.size() || place < phases[phase + 1].start);
      ASSERT_GT(phases[phase].weights[std::size_t(source)], 0);
    }
  }
}

TEST(Mixture, AnswersFarAwayAtOnce) {
  const Mixture m({{0, {1, 2}}, {30, {1, 1}}});
  const std::int64_t far = std::int64_t(1) << 60;
  EXPECT_EQ(m.before(far), (std::vector<std::int64_t>{10 + far / 2 - 15, 20 + far / 2 - 15}));
  EXPECT_EQ(m.weight(0, 1), 43691.0 / 65536.0) << "thirds are no multiples of 1/65536";
}

TEST(Mixture, Refuses) {
  using V = std::vector<double>;
  EXPECT_HAS(error_of([] { quantised(V{}); }), "0 weights");
  EXPECT_HAS(error_of([] { quantised(V{0, 0}); }), "all weights are 0");
  EXPECT_HAS(error_of([] { quantised(V{1, -1}); }), "a weight of -1");
  EXPECT_HAS(error_of([] { quantised(V{1, std::nan("")}); }), "a weight of nan");
  EXPECT_HAS(error_of([] { Mixture({}); }), "place 0");
  EXPECT_HAS(error_of([] { Mixture({{0, {1, 1}}, {0, {1, 1}}}); }), "from place 0 after one from 0");
  EXPECT_HAS(error_of([] { Mixture({{0, {1, 1}}, {5, {1}}}); }), "1 weights after one of 2");
}

}  // namespace
}  // namespace mylos::data
