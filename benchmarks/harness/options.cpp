#include "benchmarks/harness/options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "base/pattern.hpp"
#include "base/text.hpp"

namespace mylos::bench {
namespace {

double number(const std::string& flag, const std::string& text, double most, double least = 0) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0 && value >= least && value <= most))
    usage_error("{} is '{}'; it must be a number {} {} and at most {}", flag, text, least > 0 ? "of at least" : "above",
                least, most);
  return value;
}

constexpr double kLeastPoolGib = 0.001;

}  // namespace

const char* const kHelp = R"(mylos-bench [PATTERN...] [options]: times the components of mylos (docs/benchmarks.md)

  PATTERN              regular expression; cases in whose name it is found, all without one
  --list               print the names and end
  --quick              the short list, short samples, caches as they are
  --bundle FILE        bundle of kind bench: raw samples, provenance, figures
  --overwrite          replace the files of --bundle and --benchmark_out if they are there, from the first moment on
  --budget S           seconds a case, warm-up included (2; quick: 0.25)
  --target_width PART  a case ends when the 95 % interval of its median is narrower than this part of it (0.01; quick: 0.05)
  --sample S           shortest sample in seconds (GPU 0.005, CPU 0.02; quick: 0.002)
  --pool GIB           device memory for operands (GPU 32, CPU 0.75)
  --copies             beside every case that only moves memory, a copy of as many bytes
  --no_rooflines       leave out the cases that the chosen ones are held against (for tools/compare)
  --slow_down PART     wait after each call for this part of its time (0.03: 3 %), which a comparison must find
  --products FILE      tuned matrix products, or "heuristic" (the usual file if it is there, as mylos train)
  --threads N          CPU threads (OMP_NUM_THREADS, else all cores)
  --benchmark_...      Google Benchmark's flags of output: out=FILE, out_format=json|console, format=json|console, color, counters_tabular,
                       context=KEY=VALUE
)";

Options parse(const std::vector<std::string>& arguments) {
  Options o;
  const std::map<std::string, std::function<void(const std::string&, const std::string&)>> valued{
      {"--bundle", [&](const std::string&, const std::string& v) { o.bundle = v; }},
      {"--products", [&](const std::string&, const std::string& v) { o.products = v; }},
      {"--budget", [&](const std::string& f, const std::string& v) { o.budget_s = number(f, v, 86400); }},
      {"--target_width", [&](const std::string& f, const std::string& v) { o.target_width = number(f, v, 1); }},
      {"--sample", [&](const std::string& f, const std::string& v) { o.sample_s = number(f, v, 3600); }},
      {"--slow_down", [&](const std::string& f, const std::string& v) { o.slow_down = number(f, v, 1); }},
      {"--pool", [&](const std::string& f, const std::string& v) { o.pool_gib = number(f, v, 1e6, kLeastPoolGib); }},
      {"--threads", [&](const std::string& f, const std::string& v) {
         const double n = number(f, v, 512);
         if (n != std::floor(n)) usage_error("{} is '{}'; it must be a whole number", f, v);
         o.threads = int(n);
       }}};
  const std::map<std::string, bool*> plain{{"--list", &o.list},
                                           {"--quick", &o.quick},
                                           {"--help", &o.help},
                                           {"-h", &o.help},
                                           {"--copies", &o.copies},
                                           {"--overwrite", &o.overwrite},
                                           {"--no_rooflines", &o.no_rooflines}};
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a.empty()) usage_error("an argument is empty; a pattern has at least one letter");
    if (a[0] != '-') {
      o.patterns.push_back(a);
      continue;
    }
    const std::size_t equals = a.find('=');
    const std::string flag = a.substr(0, equals);
    if (const auto p = plain.find(a); p != plain.end()) {
      *p->second = true;
    } else if (const auto v = valued.find(flag); v != valued.end()) {
      if (equals == std::string::npos && i + 1 == arguments.size()) usage_error("{} has no value", flag);
      const std::string value = equals == std::string::npos ? arguments[++i] : a.substr(equals + 1);
      if (value.empty()) usage_error("{} has no value", flag);
      if (const auto [before, is_new] = given.emplace(flag, value); !is_new)
        usage_error("{} is given twice, as '{}' and '{}'; say it once", flag, before->second, value);
      v->second(flag, value);
    } else {
      std::vector<std::string> known;
      for (const auto& [name, ignored] : valued) known.push_back(name);
      for (const auto& [name, ignored] : plain) known.push_back(name);
      const std::string near = nearest_name(flag, known);
      usage_error("unknown option '{}'{} (--help lists them)", a, near.empty() ? "" : "; did you mean '" + near + "'?");
    }
  }
  return o;
}

std::vector<std::size_t> select(const std::vector<std::string>& names, const std::vector<std::string>& patterns) {
  std::vector<bool> chosen(names.size(), patterns.empty());
  for (const std::string& pattern : patterns) {
    bool found = false;
    const Pattern expression(pattern);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (expression.found_in(names[i])) found = chosen[i] = true;
    if (!found) {
      const std::string near = nearest_name(pattern, names);
      usage_error("'{}' fits none of the {} cases{}; --list shows them", pattern, names.size(),
                  near.empty() ? "" : " (nearest: " + near + ")");
    }
  }
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (chosen[i]) indices.push_back(i);
  return indices;
}

}  // namespace mylos::bench
