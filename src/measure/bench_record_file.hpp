// A `bench` bundle read back: its cases, their raw samples, and whether what it derives follows from them.
//
// read_bench throws Error that names the dataset when columns of a table differ in length, a case is named twice, a number is out of its
// range, or a sample belongs to no case. It trusts nothing derived: figures are computed from the samples (figures_of).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/store.hpp"
#include "measure/bench_record.hpp"
#include "measure/inspect.hpp"

namespace mylos::measure {

struct BenchFile {
  std::vector<BenchCase> cases;
  std::vector<std::vector<BenchSample>> samples;  // by case, in the order of time
  Rooflines rooflines;
};
BenchFile read_bench(const checkpoint::Reader& file);

// What `validate` says of a bench bundle beyond the rules for all bundles: structure, and every derived figure computed anew.
std::vector<Finding> bench_findings(const checkpoint::Reader& file);

// The cases with their figures, computed from the samples: rows for programs, and the table that `mylos inspect` ends with. A damaged bundle
// gives one row with `damaged`.
nlohmann::ordered_json bench_table(const checkpoint::Reader& file);
std::string bench_table_text(const nlohmann::ordered_json& rows);

}  // namespace mylos::measure
