// Whether B is faster than A: verdicts over timed samples of the same case on two sides.
//
// Times are compared as ratios (shifts of logarithms). With t the threshold and the 95 % interval of B's time over A's:
//   SAME     the whole interval lies within +-t
//   SLOWER   the estimate lies above t, the whole interval above t/2, and p < 0.05 after Holm's correction over all cases (FASTER: mirrored)
//   UNSURE   anything else, and what clock cycles contradict (see compare_cases); `reason` says why
// What the interval covers depends on the rounds (runs of the program) of a side:
//   paired          round i of A ran beside round i of B: signed ranks over the pairs' differences of medians; 6 to 200 rounds
//   rounds          5 or more on both sides: Mann-Whitney over the rounds' medians; samples within a run share its luck (addresses, clocks)
//   samples         fewer: Mann-Whitney over all samples, widened by their autocorrelation; differences between runs are not covered
// docs/benchmarks.md says why, and what a verdict does not mean.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/bench_record.hpp"

namespace mylos::measure {

enum class Verdict { same, faster, slower, unsure };
const char* name_of(Verdict verdict);  // "SAME"

struct CompareOptions {
  double threshold = 0.01;  // 0 < t <= 0.5: the least change that matters
  bool paired = false;
};

using Rounds = std::vector<std::vector<BenchSample>>;

struct ComparedCase {
  Rounds a, b;
  bool in_cycles = false;     // confirm by time times SM clock: work of a GPU
  bool memory_bound = false;  // its time does not follow the SM clock
};

// B over A. Infinite limits: too few values for an interval.
struct Change {
  double ratio = 1, low = 0, high = std::numeric_limits<double>::infinity(), p = 1;
};

struct Comparison {
  Verdict verdict = Verdict::unsure;
  std::string reason;                               // of UNSURE, or a remark
  std::string method;                               // "paired", "rounds", "samples"
  double median_a = 0, median_b = 0;                // s, of all samples
  std::int64_t samples_a = 0, samples_b = 0;        // that were not rejected
  std::int64_t rounds_a = 0, rounds_b = 0;          // that have such samples
  Change time;                                      // its p after Holm's correction
  std::optional<Change> cycles;                     // where every sample has a clock
  double clock_a = kNotKnown, clock_b = kNotKnown;  // MHz, median
};

void check_threshold(double threshold);  // UsageError when it is out of range

// In the order of `cases`. A verdict on time that the cycles do not share is UNSURE: FASTER and SLOWER need the cycles' interval beyond t/2 on
// the same side; SAME at different clocks is UNSURE where cycles differ, unless the case is memory-bound. Samples without
// a clock leave the verdict to time, and `reason` says so. Error: a threshold out of range, paired rounds that do not pair.
std::vector<Comparison> compare_cases(std::span<const ComparedCase> cases, const CompareOptions& options);

// The rule alone, for a change whose p is adjusted already.
Verdict judge(const Change& change, double threshold);

}  // namespace mylos::measure
