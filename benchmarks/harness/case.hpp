// A component benchmark as data: what one call computes, how to make it on operands of a pool, and how to know that it is right.
//
//   cases.push_back({.name = "ops/7b/swiglu_forward/bf16", .component = "forward", .dtype = "bf16",
//                    .work = {.bytes = 3.0 * T * F * 2, .source = "kernels/swiglu/swiglu.hpp"},
//                    .make = [=](Pool& p) -> Set { ...operands of p...; return {call, check}; }});
//
// make() gives one call on its own operands; the harness asks for as many sets as it takes that caches do not help, so whatever a set needs
// beyond the pool lives in its closures, and its size is told by Pool::elsewhere(). A case times nothing by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/harness/pool.hpp"

namespace mylos::bench {

using Call = std::function<void()>;

// Largest error of results in the units of the check, and what it may be.
struct Check {
  double error = 0, bound = 0;
  std::string against;  // "double on the host, 8 rows"
};

struct Set {
  Call call;
  std::function<Check()> check = {};  // calls once and compares; none: Case::no_check says why
};

enum class Runs {
  recorded,  // device work that neither waits nor allocates: recorded once and replayed, behind a gate
  queued,    // calls that may wait for the device or copy from the host: where the host is slower, its time counts
  host,      // work of the host alone
};

// Of one call; 0: not counted. Bytes count each operand once.
struct Work {
  double flops = 0, bytes = 0, items = 0;
  const char* item_units = "";
  const char* source = "";  // where the numbers come from
};

struct Case {
  std::string name;
  std::string component;  // forward, optimizer, data, checkpoint, harness
  std::string dtype = "";
  Runs runs = Runs::recorded;
  Work work = {};
  std::function<Set(Pool&)> make;
  std::string no_check = "";
  bool warm = false;       // the same operands each time
  bool quick = false;      // part of the short list
  int threads = 0;         // of the host; 0: all of the device when it is the CPU, else 1
  std::string limit = "";  // the rate of this case is the roofline of this name ("memory", a dtype, "host_memory")
};

using Cases = std::vector<Case>;

}  // namespace mylos::bench
