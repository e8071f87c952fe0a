#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/usage.hpp"
#include "measure/compare_detail.hpp"
#include "measure/mfu.hpp"

namespace mylos::measure::detail {

using Json = nlohmann::ordered_json;
using checkpoint::Reader;

namespace {

constexpr std::size_t kLastLosses = 50;
constexpr double kOldestClock = 1.0;  // s before a step's end, beyond which a sample says nothing about it

struct Run {
  std::vector<double> step, loss, step_time, tokens, end;
  std::vector<double> clock_time, clock;  // telemetry; empty without
  std::map<std::string, std::string> config;
};

// "section.key" -> value, of TOML as mylos writes it: a section or a key a line.
std::map<std::string, std::string> keys_of(const std::string& toml) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(toml);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    if (line.size() > 2 && line.front() == '[' && line.back() == ']' && equals == line.npos)
      section = line.substr(1, line.size() - 2) + ".";
    else if (equals != line.npos)
      keys[section + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return keys;
}

Run read_run(const std::string& path) {
  const Reader file(path, checkpoint::Trust::isolated);
  const auto column = [&](const char* name) { return file.reals(std::string("/samples/steps/") + name); };
  Run run{column("step"), column("loss"), column("step_time"), column("tokens"), {}, {}, {}, {}};
  if (file.has_dataset("/samples/steps/time")) run.end = column("time");
  for (const auto* c : {&run.loss, &run.step_time, &run.tokens})
    check(c->size() == run.step.size(), "'{}': the columns of /samples/steps differ in length", path);
  check(!run.step.empty(), "'{}' has no step to compare", path);
  const std::string gpu = "/telemetry/gpu/";
  if (file.has_dataset(gpu + "time") && file.has_dataset(gpu + "sm_clock")) {
    run.clock_time = file.reals(gpu + "time");
    run.clock = file.reals(gpu + "sm_clock");
    check(run.clock.size() == run.clock_time.size(), "'{}': the columns of /telemetry/gpu differ in length", path);
  }
  run.config = keys_of(file.text("/config/toml"));
  return run;
}

// Clock while the step ran: the last sample before its end.
double clock_at(const Run& run, std::size_t step) {
  if (run.end.size() != run.step.size() || !std::isfinite(run.end[step])) return kNotKnown;
  const auto after = std::upper_bound(run.clock_time.begin(), run.clock_time.end(), run.end[step]);
  if (after == run.clock_time.begin()) return kNotKnown;
  const std::size_t i = std::size_t(after - run.clock_time.begin()) - 1;
  return run.end[step] - run.clock_time[i] <= kOldestClock ? run.clock[i] : kNotKnown;
}

// Time a token of each step of the steady window.
std::vector<BenchSample> steady_steps(const Run& run, const std::string& path) {
  const SteadyWindow window = steady_window(std::int64_t(run.step.size()));
  std::vector<BenchSample> samples;
  for (auto i = std::size_t(window.first); i < std::size_t(window.end); ++i) {
    const double seconds = run.step_time[i] / run.tokens[i];
    check(std::isfinite(seconds) && seconds > 0, "'{}': step {} took {} s for {} tokens", path, run.step[i],
          run.step_time[i], run.tokens[i]);
    samples.push_back({.time_s = seconds, .sm_clock_mhz = clock_at(run, i)});
  }
  return samples;
}

Json compare_losses(const Run& a, const Run& b) {
  std::vector<double> x, y, steps;
  for (std::size_t i = 0, j = 0; i < a.step.size() && j < b.step.size();) {
    if (a.step[i] == b.step[j]) {
      if (std::isfinite(a.loss[i]) && std::isfinite(b.loss[j])) {
        x.push_back(a.loss[i]);
        y.push_back(b.loss[j]);
        steps.push_back(a.step[i]);
      }
      ++i;
      ++j;
    } else if (a.step[i] < b.step[j]) {
      ++i;
    } else {
      ++j;
    }
  }
  Json j = {{"steps", x.size()}};
  if (x.empty()) return j;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::abs(y[i] - x[i]) > std::abs(y[worst] - x[worst])) worst = i;
  const std::size_t last = std::min(kLastLosses, x.size());
  double sum_a = 0, sum_b = 0;
  for (std::size_t i = x.size() - last; i < x.size(); ++i) {
    sum_a += x[i];
    sum_b += y[i];
  }
  j["identical"] = x == y;
  j["largest_difference"] = y[worst] - x[worst];
  j["at_step"] = std::int64_t(steps[worst]);
  j["last"] = last;
  j["mean_of_last_a"] = sum_a / double(last);
  j["mean_of_last_b"] = sum_b / double(last);
  return j;
}

Json compare_configs(const Run& a, const Run& b) {
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [key, value] : a.config) all[key].first = value;
  for (const auto& [key, value] : b.config) all[key].second = value;
  Json rows = Json::array();
  for (const auto& [key, values] : all)
    if (values.first != values.second) rows.push_back({{"key", key}, {"a", values.first}, {"b", values.second}});
  return rows;
}

}  // namespace

void compare_train(const Side& a, const Side& b, const DiffOptions& options, Json& out) {
  check(a.files.size() == 1 && b.files.size() == 1,
        "runs of training are compared one with one; name two bundles, not folders");
  if (!options.pattern.empty() || !options.pairs.empty() || options.compare.paired)
    usage_error("--case, --pair and --paired are for bench bundles; '{}' is of kind 'train'", a.path);
  const Run run_a = read_run(a.files[0]), run_b = read_run(b.files[0]);
  const ComparedCase c{{steady_steps(run_a, a.path)}, {steady_steps(run_b, b.path)}, a.is_gpu && b.is_gpu, false};
  out["step_time"] = to_json(compare_cases(std::span(&c, 1), options.compare)[0]);
  out["warnings"].push_back(
      "one run a side: the interval does not cover that one run differs from the next, or what else their machines "
      "did");
  out["step_time"]["what"] = "s a token over the steady windows";
  out["loss"] = compare_losses(run_a, run_b);
  out["config"] = compare_configs(run_a, run_b);
}

}  // namespace mylos::measure::detail
