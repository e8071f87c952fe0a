#include "measure/compare_bundles.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/pattern.hpp"
#include "checkpoint/isolate.hpp"
#include "measure/compare_detail.hpp"
#include "measure/inspect.hpp"

namespace mylos::measure {

using Json = nlohmann::ordered_json;

namespace detail {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const Comparison& c) {
  Json j = {{"verdict", name_of(c.verdict)}, {"reason", c.reason}, {"method", c.method}};
  j["a"] = {
      {"median_s", c.median_a}, {"samples", c.samples_a}, {"rounds", c.rounds_a}, {"sm_clock", number(c.clock_a)}};
  j["b"] = {
      {"median_s", c.median_b}, {"samples", c.samples_b}, {"rounds", c.rounds_b}, {"sm_clock", number(c.clock_b)}};
  const auto change = [](const Change& v) {
    return Json{{"ratio", number(v.ratio)}, {"low", number(v.low)}, {"high", number(v.high)}, {"p", number(v.p)}};
  };
  j["time"] = change(c.time);
  if (c.cycles) j["cycles"] = change(*c.cycles);
  return j;
}

}  // namespace detail

namespace {

std::string compare(const DiffOptions& options) {
  const Side a = read_side(options.a), b = read_side(options.b);
  check(a.kind == b.kind, "'{}' is of kind '{}', '{}' of kind '{}'; a comparison needs two of one kind", a.path, a.kind,
        b.path, b.kind);
  Json out = {{"kind", a.kind}, {"threshold", options.compare.threshold}, {"a", to_json(a)}, {"b", to_json(b)}};
  out["warnings"] = differences(a, b);
  if (a.kind == "bench")
    detail::compare_bench(a, b, options, out);
  else
    detail::compare_train(a, b, options, out);
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

// Damage is named before anything is compared.
double demand_valid(const std::string& path) {
  double limit_s = 0;
  for (const std::string& file : bundles_of(path)) {
    for (const Finding& f : validate(file))
      check(!f.error, "'{}' cannot be compared: {}: {} (mylos validate lists all findings)", file, f.where, f.what);
    limit_s += checkpoint::reading_limit_s(file);
  }
  return limit_s;
}

}  // namespace

Diff diff(const DiffOptions& options) {
  // What is wrong with the command line is said before any file is read.
  check_threshold(options.compare.threshold);
  const Pattern pattern(options.pattern);
  const double limit_s = demand_valid(options.a) + demand_valid(options.b);
  Diff result;
  result.json = checkpoint::run_isolated(options.a + "' or '" + options.b, limit_s, [&] { return compare(options); });
  const Json j = Json::parse(result.json);  // written by the child's own code, whatever the files held
  const auto count = [&](const Json& row) {
    const std::string verdict = row["verdict"].get<std::string>();
    for (const auto& [name, counter] : {std::pair("SAME", &result.same), std::pair("FASTER", &result.faster),
                                        std::pair("SLOWER", &result.slower), std::pair("UNSURE", &result.unsure)})
      *counter += verdict == name;
  };
  if (j.contains("step_time")) count(j["step_time"]);
  if (j.contains("cases")) std::for_each(j["cases"].begin(), j["cases"].end(), count);
  result.text = detail::diff_text(j);
  return result;
}

}  // namespace mylos::measure
