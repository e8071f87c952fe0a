// The harness measures what it is known to measure: nothing, waits of known length, copies of one size and twice that, and the checks of cases.
// On a GPU the bounds are tight; a CPU that others use too gets wide ones, and the fastest sample stands for the case.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "benchmarks/harness/measure.hpp"
#include "benchmarks/harness/spin.hpp"
#include "benchmarks/harness/timer.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "measure/statistics.hpp"

namespace mylos::bench {
namespace {

bool gpu() { return device_info().is_gpu; }

class Harness : public ::testing::Test {
 protected:
  Pool& pool() { return pool_; }
  MeasureOptions options() const {
    MeasureOptions o = usual_options(false);
    o.stop.budget_s = gpu() ? 1 : 0.5;
    o.sample_s = 0.005;
    if (!gpu()) o.cold_bytes = std::int64_t(96) << 20;
    return o;
  }
  Case spinning(long long microseconds) const {
    return {.name = "spin",
            .component = "harness",
            .make = [=](Pool& p) -> Set { return {[=, &p] { spin(p.stream(), 1000 * microseconds); }}; },
            .no_check = "its time is the check",
            .warm = true};
  }
  Case copying(std::int64_t bytes) const {
    return {.name = "copy",
            .component = "harness",
            .work = {.bytes = double(bytes)},
            .make = [=](Pool& p) -> Set {
              const Tensor from = p.take(DType::bf16, {bytes / 4}), to = p.take(DType::bf16, {bytes / 4});
              return {[=, &p] { kernels::convert(p.stream(), from, to); }};
            },
            .no_check = "tested elsewhere"};
  }
  double usual(const Measured& m) const {
    std::vector<double> times;
    for (const auto& s : m.samples) times.push_back(s.time_s);
    return gpu() ? measure::median(times) : *std::min_element(times.begin(), times.end());
  }

 private:
  Pool pool_{std::int64_t(gpu() ? 4096 : 192) << 20};
};

TEST_F(Harness, NothingTakesNearlyNothing) {
  const Case c{.name = "null",
               .component = "harness",
               .make = [](Pool& p) -> Set { return {[&p] { null_kernel(p.stream()); }}; },
               .no_check = "nothing",
               .warm = true};
  const Measured m = measure_case(c, pool(), options(), nullptr);
  EXPECT_LT(usual(m), gpu() ? 4e-6 : 1e-3);
  EXPECT_GT(usual(m), 0);
  EXPECT_TRUE(m.about.warm);
}

TEST_F(Harness, AWaitTakesAsLongAsItLasts) {
  const double us200 = usual(measure_case(spinning(200), pool(), options(), nullptr)),
               us400 = usual(measure_case(spinning(400), pool(), options(), nullptr));
  EXPECT_GT(us200, 199e-6);
  EXPECT_LT(us200, gpu() ? 204e-6 : 800e-6);
  EXPECT_NEAR((us400 - us200) * 1e6, 200, gpu() ? 4 : 150);
}

TEST_F(Harness, ASlowdownOnPurposeIsAsLargeAsAsked) {
  for (const Runs runs : {Runs::recorded, Runs::host}) {
    Case c = spinning(400);
    c.runs = runs;
    MeasureOptions o = options();
    if (runs == Runs::host)
      c.make = [](Pool&) -> Set {
        return {[] {
          const auto begin = std::chrono::steady_clock::now();
          while (std::chrono::steady_clock::now() - begin < std::chrono::microseconds(400)) {
          }
        }};
      };
    const double plain = usual(measure_case(c, pool(), o, nullptr));
    o.slow_down = 0.5;
    const double slowed = usual(measure_case(c, pool(), o, nullptr));
    EXPECT_GT(slowed / plain, gpu() ? 1.49 : 1.3) << int(runs);
    EXPECT_LT(slowed / plain, gpu() ? 1.52 : 2.5) << int(runs);
  }
}

TEST_F(Harness, ACopyOfTwiceTheBytesTakesTwiceTheTime) {
  const std::int64_t bytes = std::int64_t(gpu() ? 512 : 8) << 20;
  // Others use a CPU besides: in turns, so that they disturb both, and the least of three.
  double once = INFINITY, twice = INFINITY;
  for (int turn = 0; turn < (gpu() ? 1 : 3); ++turn) {
    const Measured one = measure_case(copying(bytes), pool(), options(), nullptr),
                   two = measure_case(copying(2 * bytes), pool(), options(), nullptr);
    EXPECT_FALSE(one.about.warm);
    once = std::min(once, usual(one));
    twice = std::min(twice, usual(two));
  }
  EXPECT_NEAR(twice / once, 2, gpu() ? 0.1 : 1.2);
  const double rate = double(bytes) / once;
  EXPECT_GT(rate, gpu() ? 1e11 : 1e8);
  EXPECT_LT(rate, gpu() ? 2e13 : 1e12);  // no memory is so fast: it would be a cache
}

TEST_F(Harness, OperandsRotateUntilTheyAreColdEnough) {
  int made = 0;
  const MeasureOptions o = options();
  const Case c{.name = "rotates",
               .component = "harness",
               .make = [&](Pool& p) -> Set {
                 ++made;
                 const Tensor t = p.take(DType::bf16, {o.cold_bytes / 2 / 4});  // a quarter
                 return {[=, &p] { kernels::fill(p.stream(), 1, t); }};
               },
               .no_check = "counted"};
  EXPECT_FALSE(measure_case(c, pool(), o, nullptr).about.warm);
  EXPECT_EQ(made, 4);
  MeasureOptions still = o;
  still.rotate = false;
  made = 0;
  EXPECT_TRUE(measure_case(c, pool(), still, nullptr).about.warm);
  EXPECT_EQ(made, 1);
}

TEST_F(Harness, WorkOfTheHostIsTimedOnTheHost) {
  const Case c{.name = "host",
               .component = "data",
               .runs = Runs::host,
               .make = [](Pool&) -> Set {
                 return {[] {
                   const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
                   while (std::chrono::steady_clock::now() < end) {
                   }
                 }};
               },
               .no_check = "its time is the check",
               .warm = true};
  const Measured m = measure_case(c, pool(), options(), nullptr);
  EXPECT_GE(usual(m), 2e-3);
  EXPECT_LT(usual(m), gpu() ? 2.2e-3 : 8e-3);
  EXPECT_FALSE(m.about.on_device);
  EXPECT_EQ(m.about.threads, 1);
}

TEST_F(Harness, WrongResultsAreNotTimed) {
  int calls = 0;
  Case c{.name = "wrong", .component = "harness", .make = [&](Pool&) -> Set {
           return {[&] { ++calls; }, [] { return Check{0.5, 0.1, "what is right"}; }};
         }};
  EXPECT_THROW(measure_case(c, pool(), options(), nullptr), Error);
  EXPECT_EQ(calls, 0);
  // A NaN is no small error, and a case must have a check or a reason.
  c.make = [&](Pool&) -> Set { return {[] {}, [] { return Check{NAN, 0.1, "what is right"}; }}; };
  EXPECT_THROW(measure_case(c, pool(), options(), nullptr), Error);
  c.make = [&](Pool&) -> Set { return {[] {}}; };
  EXPECT_THROW(measure_case(c, pool(), options(), nullptr), Error);
}

TEST_F(Harness, ACaseThatDoesNotFitSaysSo) {
  const Case c{.name = "large",
               .component = "harness",
               .make = [](Pool& p) -> Set {
                 const Tensor t = p.take(DType::f32, {std::int64_t(1) << 40});
                 return {[=, &p] { kernels::fill(p.stream(), 0, t); }};
               },
               .no_check = "it never runs"};
  EXPECT_THROW(measure_case(c, pool(), options(), nullptr), NoRoom);
  EXPECT_THROW(need_memory(std::int64_t(1) << 50, "a test"), NoRoom);
}

// Recorded work begins together with its start event: what the host takes to queue it is not in the time.
TEST_F(Harness, ASlowHostDoesNotShow) {
  if (!gpu()) GTEST_SKIP() << "work of a CPU is done when the call returns";
  Timer timer(pool().stream(), {[&] { spin(pool().stream(), 50000); }}, Runs::recorded);
  timer.seconds(4);
  const double each = timer.seconds(20) / double(20 * timer.calls_per_unit());
  EXPECT_NEAR(each * 1e6, 50, 2.5);
  EXPECT_FALSE(timer.gate_gave_up());
}

TEST_F(Harness, AGateOpensByItselfBeforeTheQueueIsStuck) {
  if (!gpu()) GTEST_SKIP() << "a gate is always open on a CPU";
  Gate gate;
  gate.close(pool().stream());
  pool().stream().fence();
  EXPECT_TRUE(gate.gave_up());
  gate.close(pool().stream());
  gate.open();
  pool().stream().fence();
  EXPECT_FALSE(gate.gave_up());
}

}  // namespace

}  // namespace mylos::bench
