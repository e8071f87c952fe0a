// All cases that this build and device have, from benchmarks/cases: one function a file.
#pragma once

#include "benchmarks/harness/case.hpp"

namespace mylos::bench {

// What a case needs to know of where it runs.
struct Place {
  bool gpu = false;
  bool quick = false;
};
Cases all_cases(const Place& place);

}  // namespace mylos::bench
