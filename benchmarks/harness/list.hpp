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
// A copy that moves as many bytes as an op does, read and written together: harness/copy/bytes:<n>.
Case copy_of(double bytes);
std::string copy_name(double bytes);

}  // namespace mylos::bench
