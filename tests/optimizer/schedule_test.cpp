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
                         ::testing::Values(ScheduleShape::cosine, ScheduleShape::linear, ScheduleShape::constant));

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
