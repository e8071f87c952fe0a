// The command line of mylos-bench. Google Benchmark's own flags (--benchmark_out=FILE, --benchmark_format, ...) are taken out before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/usage.hpp"

namespace mylos::bench {

struct Options {
  std::vector<std::string> patterns;  // regular expressions found in the name of a case; none: all
  std::string bundle;                 // file to write; empty: none
  std::optional<double> budget_s, target_width, sample_s;
  double slow_down = 0;  // part of a call's time
  double pool_gib = 0;   // 0: as the device suits
  int threads = 0;
  std::string products;  // file of tuned matrix products; empty: the usual one if it is there
  bool list = false, quick = false, copies = false, no_rooflines = false, overwrite = false, help = false;
};

// Throws UsageError that names the argument. A flag's value is its own argument or follows '='; no such flag comes twice.
Options parse(const std::vector<std::string>& arguments);
extern const char* const kHelp;

// Of `names` those that a pattern is found in, in their order. UsageError names a pattern that is none, or is found nowhere.
std::vector<std::size_t> select(const std::vector<std::string>& names, const std::vector<std::string>& patterns);

}  // namespace mylos::bench
