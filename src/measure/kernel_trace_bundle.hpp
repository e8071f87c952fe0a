// A profile of kernels in a bundle of kind `profile`, and read back (docs/bundle.md has the tables).
//
// Every record of the profiled steps is kept raw in /samples/kernels; /derived/kernels and /derived/categories and the summaries follow from them.
// Reading trusts nothing derived: the table is computed from the records. Throws Error that names the dataset when columns differ in length
// or a number is out of its range.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/store.hpp"
#include "measure/bundle.hpp"
#include "measure/inspect.hpp"
#include "measure/kernel_trace_table.hpp"

namespace mylos::measure {

struct KernelProfile {
  KernelRecords records;
  std::vector<StepWindow> windows;
  KernelTable table;
};

void put_kernels(Bundle& bundle, const KernelProfile& profile);

bool has_kernels(const checkpoint::Reader& file);
KernelProfile read_kernels(const checkpoint::Reader& file);

// What `validate` says of a profile of kernels: structure, and every derived figure computed anew.
std::vector<Finding> kernel_findings(const checkpoint::Reader& file);

// What `mylos inspect` ends with: {"table": text}, of a damaged bundle {"damaged": why}.
nlohmann::ordered_json kernel_summary(const checkpoint::Reader& file);

}  // namespace mylos::measure
