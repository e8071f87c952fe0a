// Measures one case: operands, check, warm-up, samples until the rules of rules.hpp say enough.
//
// Every sample is a stretch of calls (timer.hpp) of at least sample_s, ten times that for calls that are only queued. Sets of operands are made until they take cold_bytes together, which
// is more than the caches; a case that asks for warm operands, or whose sets do not get there, is recorded as warm. The check runs before
// anything is timed; a result beyond its bound is an Error, and the case has no times. Clock, power, temperature and reasons are read from
// NVML in the middle of each sample. A sample whose launches the host did not queue in time (gate.hpp) is taken again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/case.hpp"
#include "benchmarks/harness/rules.hpp"
#include "measure/bench_record.hpp"
#include "measure/nvml.hpp"

namespace mylos::bench {

struct MeasureOptions {
  StopOptions stop;
  double sample_s = 0.005;
  double warm_up_s = 0;  // at least: clocks take a while to rise, and the power cap to bite
  double limit_s =
      0;  // at least, of what others are held against, but no more than four budgets: under full load clocks fall for a second
  bool rotate = true;                                 // false: one set of operands, whatever the case wants
  std::int64_t cold_bytes = std::int64_t(512) << 20;  // ten times the L2 cache of an H200
  // Part of a call's time for which each call waits in addition: a slowdown of known size, by which comparisons are proved.
  double slow_down = 0;
};
// Those of the device; `quick`: samples short and few, caches as they are.
MeasureOptions usual_options(bool quick);

struct Measured {
  measure::BenchCase about;
  std::vector<measure::BenchSample> samples;
};

// sensor: none where there is no NVML.
Measured measure_case(const Case& c, Pool& pool, const MeasureOptions& options, const measure::GpuSensor* sensor);
// What a bundle says of a case that was not measured, and why.
measure::BenchCase not_measured(const Case& c, const std::string& why);

// The sensor of this process' GPU; null with the reason in why_not.
std::unique_ptr<measure::GpuSensor> open_sensor(std::string& why_not);

}  // namespace mylos::bench
