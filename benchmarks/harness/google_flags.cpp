#include "benchmarks/harness/google_flags.hpp"

#include <cctype>
#include <cstdlib>
#include <set>

#include "base/text.hpp"
#include "base/usage.hpp"

namespace mylos::bench {
namespace {

constexpr const char* kPrefix = "--benchmark_";

struct Flag {
  const char* name;
  const char* instead;  // why it is refused; empty: taken
};
constexpr Flag kFlags[] = {
    {"format", ""},
    {"out", ""},
    {"out_format", ""},
    {"color", ""},
    {"counters_tabular", ""},
    {"context", ""},
    {"filter", "name the cases with patterns: mylos-bench PATTERN..."},
    {"list_tests", "use --list"},
    {"repetitions", "a case is measured once, until its interval is narrow; several runs are what tools/compare makes"},
    {"min_time", "use --budget"},
    {"min_warmup_time", "warm-up ends by a rule and is part of --budget"},
    {"enable_random_interleaving", "a case is measured once; runs in turns are what tools/compare makes"},
    {"report_aggregates_only", "a case is one row, with the median and its interval"},
    {"display_aggregates_only", "a case is one row, with the median and its interval"},
    {"perf_counters", "counters are those of the case"},
    {"time_unit", "figures have their units"},
};

const Flag* find(const std::string& name) {
  for (const Flag& flag : kFlags)
    if (name == flag.name) return &flag;
  return nullptr;
}

void refuse_environment() {
  for (const Flag& flag : kFlags) {
    std::string variable = std::string("BENCHMARK_") + flag.name;
    for (char& c : variable) c = char(std::toupper(static_cast<unsigned char>(c)));
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) continue;
    if (*flag.instead != '\0')
      usage_error("the environment has {}={}; unset it: {}", variable, printable(value), flag.instead);
    usage_error("the environment has {}={}; unset it, and say {}{} instead", variable, printable(value), kPrefix,
                flag.name);
  }
}

std::string taken(const std::string& name) {
  const Flag* flag = find(name);
  if (flag == nullptr) {
    std::vector<std::string> known;
    for (const Flag& f : kFlags)
      if (*f.instead == '\0') known.push_back(std::string(kPrefix) + f.name);
    const std::string near = nearest_name(kPrefix + name, known);
    usage_error("unknown option '{}{}'; {}", kPrefix, name,
                near.empty() ? "of Google Benchmark's there are " + join(known, ", ") : "did you mean '" + near + "'?");
  }
  if (*flag->instead != '\0') usage_error("{}{} is not taken: {}", kPrefix, name, flag->instead);
  return name;
}

}  // namespace

bool is_google_flag(const std::string& argument) { return argument.starts_with(kPrefix); }

GoogleFlags google_flags(const std::vector<std::string>& arguments) {
  refuse_environment();
  GoogleFlags flags;
  std::set<std::string> seen;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    const std::string name = taken(argument.substr(0, equals).substr(std::string(kPrefix).size()));
    if (name == "counters_tabular" && equals == std::string::npos) continue;
    if (equals == std::string::npos || equals + 1 == argument.size())
      usage_error("{}{} has no value; write {}{}=VALUE", kPrefix, name, kPrefix, name);
    if (!seen.insert(name).second) usage_error("{}{} is given twice; say it once", kPrefix, name);
    const std::string value = argument.substr(equals + 1);
    // Google Benchmark would print its usage and call that a success.
    if ((name == "format" || name == "out_format") && value != "console" && value != "json")
      usage_error("{}{} is '{}'; use console or json", kPrefix, name, value);
    if (name == "format") flags.own_table = false;
    if (name == "out") flags.out = value;
    if (name == "out_format") flags.format = value;
  }
  if (seen.contains("out_format") && flags.out.empty())
    usage_error("{}out_format says how {}out=FILE is written, and there is none", kPrefix, kPrefix);
  return flags;
}

}  // namespace mylos::bench
