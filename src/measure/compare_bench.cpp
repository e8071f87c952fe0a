#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/pattern.hpp"
#include "base/text.hpp"
#include "base/usage.hpp"
#include "measure/bench_record_columns.hpp"
#include "measure/bench_record_file.hpp"
#include "measure/compare_detail.hpp"

namespace mylos::measure::detail {

using Json = nlohmann::ordered_json;

namespace {

struct Cases {
  std::vector<std::string> names;          // in the order in which they first occur
  std::map<std::string, BenchCase> facts;  // of the first round that has the case
  std::map<std::string, Rounds> rounds;    // one entry a file, empty where it lacks the case
  std::map<std::string, std::string> skipped;
  std::vector<Rooflines> rooflines;
};

Cases read_cases(const Side& side) {
  Cases all;
  for (std::size_t i = 0; i < side.files.size(); ++i) {
    BenchFile file = read_bench(checkpoint::Reader(side.files[i], checkpoint::Trust::isolated));
    all.rooflines.push_back(file.rooflines);
    for (std::size_t c = 0; c < file.cases.size(); ++c) {
      const BenchCase& facts = file.cases[c];
      if (!facts.skipped.empty()) all.skipped.emplace(facts.name, facts.skipped);
      if (all.facts.emplace(facts.name, facts).second) all.names.push_back(facts.name);
      Rounds& rounds = all.rounds[facts.name];
      rounds.resize(side.files.size());
      rounds[i] = std::move(file.samples[c]);
    }
  }
  return all;
}

// Bytes take longer than FLOPs, as far as the run knows its limits.
bool is_memory_bound(const BenchCase& c, const Rooflines& limits) {
  if (c.flops <= 0) return c.bytes > 0;
  const auto flops = limits.find(c.dtype), bytes = limits.find(kMemoryLimit);
  return flops != limits.end() && bytes != limits.end() && c.bytes / bytes->second > c.flops / flops->second;
}

std::vector<std::string> other_work(const BenchCase& a, const BenchCase& b) {
  std::vector<std::string> found;
  const auto differ = [&](const char* what, const auto& x, const auto& y) {
    if (x != y) found.push_back(fmt::format("{} {} and {}", what, x, y));
  };
  differ("dtype", a.dtype, b.dtype);
  differ("FLOPs", a.flops, b.flops);
  differ("bytes", a.bytes, b.bytes);
  differ("items", a.items, b.items);
  differ("warm", a.warm, b.warm);
  differ("threads", a.threads, b.threads);
  return found;
}

std::vector<std::pair<std::string, std::string>> paired_names(const Cases& a, const Cases& b,
                                                              const DiffOptions& options) {
  std::vector<std::pair<std::string, std::string>> pairs = options.pairs;
  for (const auto& [x, y] : pairs) {
    for (const auto& [name, side, letter] : {std::tuple(x, &a, 'A'), std::tuple(y, &b, 'B')}) {
      if (side->facts.count(name)) continue;
      const std::string near = nearest_name(name, side->names);
      usage_error("{} has no case '{}'{}", letter, name, near.empty() ? "" : "; did you mean '" + near + "'?");
    }
  }
  if (!pairs.empty()) return pairs;
  const Pattern pattern(options.pattern);
  std::size_t common = 0;
  for (const std::string& name : a.names) {
    if (!b.facts.count(name)) continue;
    ++common;
    if (pattern.found_in(name)) pairs.emplace_back(name, name);
  }
  check(common > 0, "no case is in both '{}' and '{}'; A has {} cases, B {}", options.a, options.b, a.names.size(),
        b.names.size());
  if (pairs.empty())
    usage_error("'{}' fits none of the {} cases that '{}' and '{}' have in common", options.pattern, common, options.a,
                options.b);
  return pairs;
}

}  // namespace

void compare_bench(const Side& a, const Side& b, const DiffOptions& options, Json& out) {
  const Cases cases_a = read_cases(a), cases_b = read_cases(b);
  std::vector<ComparedCase> compared;
  std::vector<std::pair<std::string, std::string>> names;
  Json skipped = Json::array();
  for (const auto& pair : paired_names(cases_a, cases_b, options)) {
    ComparedCase c{cases_a.rounds.at(pair.first), cases_b.rounds.at(pair.second)};
    const auto no_samples = [](const Rounds& rounds) {
      return std::all_of(rounds.begin(), rounds.end(), [](const auto& r) { return r.empty(); });
    };
    if (no_samples(c.a) || no_samples(c.b)) {
      const bool in_a = no_samples(c.a);
      const auto& why = in_a ? cases_a.skipped.at(pair.first) : cases_b.skipped.at(pair.second);
      skipped.push_back({{"name", pair.first}, {"side", in_a ? "A" : "B"}, {"why", why}});
      continue;
    }
    const BenchCase& facts = cases_a.facts.at(pair.first);
    c.in_cycles = a.is_gpu && b.is_gpu && facts.on_device;
    c.memory_bound = is_memory_bound(facts, cases_a.rooflines[0]);
    compared.push_back(std::move(c));
    names.push_back(pair);
  }
  const std::vector<Comparison> results = compare_cases(compared, options.compare);
  out["cases"] = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    Json row = {{"name", names[i].first}};
    if (names[i].second != names[i].first) row["name_b"] = names[i].second;
    row.update(to_json(results[i]));
    const auto differ = other_work(cases_a.facts.at(names[i].first), cases_b.facts.at(names[i].second));
    if (!differ.empty())
      out["warnings"].push_back(
          fmt::format("'{}' is not the same work in A and B: {}", names[i].first, join(differ, ", ")));
    out["cases"].push_back(std::move(row));
  }
  if (!results.empty() && results[0].method == "samples")
    out["warnings"].push_back(
        "fewer than 5 runs a side: intervals do not cover that one run differs from the next (docs/benchmarks.md); "
        "tools/compare makes rounds");
  out["skipped"] = std::move(skipped);
  const auto only = [](const Cases& in, const Cases& not_in) {
    Json list = Json::array();
    for (const std::string& name : in.names)
      if (!not_in.facts.count(name)) list.push_back(name);
    return list;
  };
  out["only_a"] = only(cases_a, cases_b);
  out["only_b"] = only(cases_b, cases_a);
}

}  // namespace mylos::measure::detail
