// The cases of one run of mylos-bench under Google Benchmark: each is registered with manual time, measured by measure_case(), put into the
// record, and printed as a line.
//
// A case without room on the device is skipped with the reason; one whose results are wrong, or that throws, has failed, and the others go
// on. Rooflines are cases that come first: those that the chosen cases are held against are added when they were not chosen.
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/measure.hpp"

namespace mylos::bench {

// The chosen cases behind the rooflines that they need; each once.
std::vector<const Case*> with_rooflines(const Cases& all, const std::vector<std::size_t>& chosen);
// Whether a case only moves memory of the device, so that a copy of as many bytes says how fast that can be.
bool only_moves(const Case& c);

class Session {
 public:
  // All must outlive it. sensor may be none.
  Session(Pool& pool, const MeasureOptions& options, const measure::GpuSensor* sensor, measure::Bundle* bundle,
          measure::BenchRecord& record);
  void add(const Case& c);  // to Google Benchmark
  int failures() const { return failures_; }
  int without_room() const { return without_room_; }

  static std::string header();
  std::string line(std::size_t index) const;  // of the record's cases
  // Google Benchmark's output as one line a case.
  std::unique_ptr<benchmark::BenchmarkReporter> reporter();

 private:
  class Lines;
  void run(const Case& c, benchmark::State& state);
  double copy_s(const measure::BenchCase& c) const;  // of as many bytes; NaN when there is none

  Pool& pool_;
  MeasureOptions options_;
  const measure::GpuSensor* sensor_;
  measure::Bundle* bundle_;  // none: nothing is published
  measure::BenchRecord& record_;
  int failures_ = 0, without_room_ = 0;
};

}  // namespace mylos::bench
