// Which of Google Benchmark's flags mylos-bench takes: those of its output. The others would measure by its rules instead of ours, choose cases
// with an expression that is not safe (base/pattern.hpp), or do nothing; they are refused with the option that is meant.
//
// UsageError also for a flag that it does not have, one without a value or given twice, and for the environment variables (BENCHMARK_FILTER
// and so on) from which it reads the same flags.
#pragma once

#include <string>
#include <vector>

namespace mylos::bench {

bool is_google_flag(const std::string& argument);

struct GoogleFlags {
  bool own_table = true;             // false: Google Benchmark prints in the format it was told
  std::string out, format = "json";  // file beside the table and its format; empty: none
};
GoogleFlags google_flags(const std::vector<std::string>& arguments);

}  // namespace mylos::bench
