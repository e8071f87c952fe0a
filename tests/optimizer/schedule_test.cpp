#include "optimizer/schedule.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace mylos::optimizer {
namespace {

ScheduleConfig config(ScheduleShape shape, std::int64_t warmup, std::int64_t length = 0) {
  return {.shape = shape, .learning_rate = 3e-3, .final_fraction = 0.1, .warmup = warmup, .length = length};
}

class EveryShape : public ::testing::TestWithParam<ScheduleShape> {};

TEST_P(EveryShape, FirstStepTrainsPeakEndsWarmupAndTheEndIsFinal) {
  for (const std::int64_t warmup : {0, 1, 2, 7, 99, 100}) {
    const Schedule s(config(GetParam(), warmup), 100);
    EXPECT_GT(s.learning_rate(0), 0.0) << "warm-up " << warmup;
    const std::int64_t top = warmup > 0 ? warmup - 1 : 0;
    EXPECT_DOUBLE_EQ(s.learning_rate(top), 3e-3) << "warm-up " << warmup;
    for (std::int64_t i = 1; i < 120; ++i) {
      const double before = s.learning_rate(i - 1), now = s.learning_rate(i);
      if (i <= top) {
        EXPECT_GT(now, before) << "step " << i << " warm-up " << warmup;
      } else {
        EXPECT_LE(now, before) << "step " << i << " warm-up " << warmup;
      }
      EXPECT_GE(now, 0.0);
      EXPECT_LE(now, 3e-3);
    }
    const double last = GetParam() == ScheduleShape::constant ? 3e-3 : 3e-4;
    if (warmup < 100) {
      EXPECT_NEAR(s.learning_rate(99), last, 1e-18) << "warm-up " << warmup;
    }
    EXPECT_NEAR(s.learning_rate(100), last, 1e-18) << "beyond its length the last value holds";
    EXPECT_NEAR(s.learning_rate(1000000000000), last, 1e-18);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EveryShape,
                         ::testing::Values(ScheduleShape::cosine, ScheduleShape::linear, ScheduleShape::constant,
                                           ScheduleShape::wsd, ScheduleShape::rex));

ScheduleConfig wsd(Cooldown shape, std::int64_t warmup, std::int64_t cooldown, std::int64_t length) {
  ScheduleConfig c = config(ScheduleShape::wsd, warmup, length);
  c.cooldown = cooldown;
  c.cooldown_shape = shape;
  return c;
}

TEST(Schedule, WsdHoldsThePeakUntilItsCooldown) {
  for (const Cooldown shape : {Cooldown::linear, Cooldown::cosine, Cooldown::one_minus_sqrt})
    for (const std::int64_t warmup : {0, 1, 17})
      for (const std::int64_t cooldown : {1, 2, 40, 83}) {
        SCOPED_TRACE(::testing::Message()
                     << "shape " << int(shape) << " warm-up " << warmup << " cooldown " << cooldown);
        const Schedule s(wsd(shape, warmup, cooldown, 100), 1);
        const std::int64_t top = std::max<std::int64_t>(warmup, 1) - 1, last_peak = std::max(top, 99 - cooldown);
        for (std::int64_t i = top; i <= last_peak; ++i) EXPECT_DOUBLE_EQ(s.learning_rate(i), 3e-3) << "step " << i;
        for (std::int64_t i = last_peak + 1; i < 100; ++i) {
          EXPECT_LT(s.learning_rate(i), s.learning_rate(i - 1)) << "step " << i;
          EXPECT_GE(s.learning_rate(i), 3e-4 - 1e-18);
        }
        EXPECT_NEAR(s.learning_rate(99), 3e-4, 1e-18);
        EXPECT_NEAR(s.learning_rate(1000), 3e-4, 1e-18);
      }
}

TEST(Schedule, CooldownsHaveTheirShape) {
  // 60 steps of cooldown after the peak of step 39: step 54 has a quarter of them behind it.
  const auto rate = [](Cooldown shape) { return Schedule(wsd(shape, 0, 60, 100), 1).learning_rate(54); };
  EXPECT_NEAR(rate(Cooldown::linear), 3e-3 * (0.1 + 0.9 * 0.75), 1e-15);
  EXPECT_NEAR(rate(Cooldown::cosine), 3e-3 * (0.1 + 0.9 * 0.8535533905932737), 1e-15);
  EXPECT_NEAR(rate(Cooldown::one_minus_sqrt), 3e-3 * (0.1 + 0.9 * 0.5), 1e-15);
  EXPECT_EQ(Schedule(wsd(Cooldown::linear, 0, 0, 100), 1).cooldown(), 20) << "a fifth";
  EXPECT_EQ(Schedule(wsd(Cooldown::linear, 95, 0, 100), 1).cooldown(), 5) << "what warm-up leaves";
}

TEST(Schedule, RexFallsLateAndFast) {
  // (1 - t) / (1 - t/2)
  const Schedule s(config(ScheduleShape::rex, 0), 101);
  EXPECT_NEAR(s.learning_rate(50), 3e-3 * (0.1 + 0.9 * 2.0 / 3.0), 1e-15);
  EXPECT_NEAR(s.learning_rate(90), 3e-3 * (0.1 + 0.9 * 0.1 / 0.55), 1e-15);
}

TEST(Schedule, CooldownMustFitAndBelongsToWsd) {
  EXPECT_THROW(Schedule(wsd(Cooldown::linear, 50, 51, 100), 1), Error);
  EXPECT_NO_THROW(Schedule(wsd(Cooldown::linear, 50, 50, 100), 1));
  ScheduleConfig c = config(ScheduleShape::cosine, 0, 100);
  c.cooldown = 10;
  EXPECT_THROW(Schedule(c, 1), Error);
  c.cooldown = 0;
  c.cooldown_shape = Cooldown::cosine;
  EXPECT_THROW(Schedule(c, 1), Error);
}

TEST(Schedule, HalfWayValues) {
  // 101 steps without warm-up: step 50 is the middle of the fall.
  EXPECT_NEAR(Schedule(config(ScheduleShape::cosine, 0), 101).learning_rate(50), 3e-3 * 0.55, 1e-15);
  EXPECT_NEAR(Schedule(config(ScheduleShape::linear, 0), 101).learning_rate(50), 3e-3 * 0.55, 1e-15);
  EXPECT_NEAR(Schedule(config(ScheduleShape::linear, 0), 101).learning_rate(25), 3e-3 * 0.775, 1e-15);
  EXPECT_NEAR(Schedule(config(ScheduleShape::cosine, 0), 101).learning_rate(25),
              3e-3 * (0.1 + 0.9 * 0.8535533905932737), 1e-15);
  EXPECT_DOUBLE_EQ(Schedule(config(ScheduleShape::cosine, 10), 101).learning_rate(4), 1.5e-3);
}

TEST(Schedule, ItsLengthDoesNotFollowTheRun) {
  const Schedule own(config(ScheduleShape::cosine, 5, 1000), 20), whole(config(ScheduleShape::cosine, 5), 1000);
  for (std::int64_t i = 0; i < 1000; i += 13) EXPECT_EQ(own.learning_rate(i), whole.learning_rate(i));
}

TEST(Schedule, OneStep) {
  EXPECT_DOUBLE_EQ(Schedule(config(ScheduleShape::cosine, 0), 1).learning_rate(0), 3e-3);
  EXPECT_NEAR(Schedule(config(ScheduleShape::cosine, 0), 1).learning_rate(1), 3e-4, 1e-18);
}

TEST(Schedule, WarmupMustFit) {
  EXPECT_THROW(Schedule(config(ScheduleShape::cosine, 11), 10), Error);
  EXPECT_THROW(Schedule(config(ScheduleShape::cosine, 0), 0), Error);
  EXPECT_THROW(Schedule(config(ScheduleShape::cosine, 0), 10).learning_rate(-1), Error);
}

}  // namespace
}  // namespace mylos::optimizer
