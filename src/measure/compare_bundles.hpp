// What `mylos diff` prints: two bundles of one kind, `bench` or `train`, or two folders of bench bundles (a bundle a round), compared.
//
// bench: cases that both sides have, by name, with a verdict each (compare.hpp). train: time a token of the steady window with a verdict,
// losses step by step, and the keys of the configuration that differ. Warnings name what else differs: machine, build, call, dtype.
// Error: a file that does not validate, kinds that differ or cannot be compared, a folder without bundles. UsageError: a pattern (base/pattern.hpp)
// that is none or fits no case, a pair of cases that are not there, a threshold out of range.
// All reading is done in a forked child (checkpoint/isolate.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "measure/compare.hpp"

namespace mylos::measure {

struct DiffOptions {
  std::string a, b;  // bundles or folders
  CompareOptions compare{};
  std::string pattern{};  // found in the names of cases (base/pattern.hpp); empty: all
  // A case of A beside a case of B of another name, instead of all that have equal names.
  std::vector<std::pair<std::string, std::string>> pairs{};
};

struct Diff {
  std::string json, text;
  std::int64_t same = 0, faster = 0, slower = 0, unsure = 0;
};
Diff diff(const DiffOptions& options);

}  // namespace mylos::measure
