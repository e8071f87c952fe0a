// What trials by hand share: ways to do one thing that are timed in turns, the table of them, and a program around it all.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "benchmarks/harness/case.hpp"
#include "measure/statistics.hpp"

namespace mylos::bench {

struct Way {
  std::string name;
  Call call;
  std::vector<double> times = {};  // seconds of a call, a round each
};

// The median of each; the last column is the first way's over this one's.
inline void print_ways(const std::string& what, const std::vector<Way>& ways, double flops) {
  const double first = measure::median(ways[0].times);
  for (const Way& way : ways) {
    const double t = measure::median(way.times);
    fmt::print("{:34} {:24} {:9.1f} us {:6.1f} TFLOP/s {:6.4f}\n", what, way.name, t * 1e6, flops / t * 1e-12,
               first / t);
  }
  std::fflush(stdout);
}

// main() of such a program: an exception is a line and an exit status of 1.
inline int run_trial(const char* name, int (*body)(int argc, char** argv), int argc, char** argv) {
  try {
    return body(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}

}  // namespace mylos::bench
