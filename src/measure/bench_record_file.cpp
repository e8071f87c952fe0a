#include "measure/bench_record_file.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "measure/agree.hpp"
#include "measure/bench_record_columns.hpp"

namespace mylos::measure {
namespace {

using checkpoint::Reader;

constexpr double kMostCalls = 9e15;  // integers that an f64 holds exactly

std::vector<double> column(const Reader& file, const std::string& path, std::size_t rows) {
  const checkpoint::DatasetInfo info = file.info(path);
  check(!info.is_text && info.dtype == DType::f64 && info.shape.size() == 1, "'{}' must be f64 with one dimension",
        path);
  check(std::size_t(info.shape[0]) == rows, "'{}' has {} rows, other columns of its table {}", path, info.shape[0],
        rows);
  return file.reals(path);
}

std::vector<std::string> texts(const Reader& file, const std::string& path, std::size_t rows) {
  const checkpoint::DatasetInfo info = file.info(path);
  check(info.is_text && info.shape.size() == 1, "'{}' must be texts with one dimension", path);
  check(std::size_t(info.shape[0]) == rows, "'{}' has {} rows, other columns of its table {}", path, info.shape[0],
        rows);
  return file.texts(path);
}

std::size_t rows_of(const Reader& file, const std::string& path) {
  const checkpoint::DatasetInfo info = file.info(path);
  check(info.shape.size() == 1, "'{}' must have one dimension", path);
  return std::size_t(info.shape[0]);
}

std::vector<BenchCase> read_cases(const Reader& file) {
  const std::size_t rows = rows_of(file, "/cases/name");
  std::vector<BenchCase> cases(rows);
  for (const BenchTextColumn& c : kBenchTexts) {
    std::vector<std::string> values = texts(file, std::string("/cases/") + c.name, rows);
    for (std::size_t i = 0; i < rows; ++i) cases[i].*c.field = std::move(values[i]);
  }
  for (const BenchNumberColumn& c : kBenchNumbers) {
    const std::string path = std::string("/cases/") + c.name;
    if (c.may_be_absent && !file.has_dataset(path)) continue;
    const std::vector<double> values = column(file, path, rows);
    for (std::size_t i = 0; i < rows; ++i) {
      const bool is_count = c.units == std::string("1") && !c.may_be_nan;  // becomes an integer
      check((c.may_be_nan && std::isnan(values[i])) ||
                (std::isfinite(values[i]) && values[i] >= 0 && (!is_count || values[i] < kMostCalls)),
            "row {} of '{}' is {}, which it cannot be", i, path, values[i]);
      c.set(cases[i], values[i]);
      if (!c.may_be_nan)  // a flag that is 2, half a call
        check(c.get(cases[i]) == values[i], "row {} of '{}' is {}, which it cannot be", i, path, values[i]);
    }
  }
  std::set<std::string> names;
  for (const BenchCase& c : cases) {
    check(names.insert(c.name).second, "'/cases/name' has '{}' twice", c.name);
    check(c.calls_per_sample > 0 || !c.skipped.empty(), "case '{}' has samples of {} calls", c.name,
          c.calls_per_sample);
  }
  return cases;
}

void read_samples(const Reader& file, BenchFile& bench) {
  const std::string at = "/samples/calls/";
  const std::size_t rows = rows_of(file, at + "case");
  const auto read = [&](const char* name) { return column(file, at + name, rows); };
  const std::vector<double> cases = read("case"), times = read("time"), clocks = read("sm_clock"),
                            power = read("power"), temperature = read("temperature"),
                            reasons = read("throttle_reasons"), rejected = read("rejected");
  bench.samples.resize(bench.cases.size());
  for (std::size_t i = 0; i < rows; ++i) {
    check(cases[i] >= 0 && cases[i] < double(bench.cases.size()) && cases[i] == std::floor(cases[i]),
          "row {} of '/samples/calls/case' is {}; there are {} cases", i, cases[i], bench.cases.size());
    check(std::isfinite(times[i]) && times[i] > 0,
          "row {} of '/samples/calls/time' is {} s; times are finite and positive", i, times[i]);
    check(rejected[i] == 0 || rejected[i] == 1, "row {} of '/samples/calls/rejected' is {}, neither 0 nor 1", i,
          rejected[i]);
    check(std::isnan(clocks[i]) || (std::isfinite(clocks[i]) && clocks[i] > 0),
          "row {} of '/samples/calls/sm_clock' is {} MHz", i, clocks[i]);
    for (const auto& [name, value] : {std::pair("power", power[i]), std::pair("temperature", temperature[i]),
                                      std::pair("throttle_reasons", reasons[i])})
      check(!std::isinf(value) && !(value < 0), "row {} of '/samples/calls/{}' is {}, which it cannot be", i, name,
            value);
    bench.samples[std::size_t(cases[i])].push_back(
        {times[i], clocks[i], power[i], temperature[i], reasons[i], rejected[i] != 0});
  }
  for (std::size_t i = 0; i < bench.cases.size(); ++i) {
    const BenchCase& c = bench.cases[i];
    check(bench.samples[i].empty() != c.skipped.empty(),
          "case '{}' has {} samples and '{}' as the reason why it was skipped", c.name, bench.samples[i].size(),
          c.skipped);
  }
}

struct Roofline {
  std::string limit;
  std::size_t index;
};

std::vector<Roofline> read_rooflines(const Reader& file, const BenchFile& bench) {
  const std::string at = "/derived/rooflines/";
  const std::size_t rows = rows_of(file, at + "limit");
  const std::vector<std::string> limits = texts(file, at + "limit", rows);
  const std::vector<double> cases = column(file, at + "case", rows);
  std::vector<Roofline> all;
  for (std::size_t i = 0; i < rows; ++i) {
    check(cases[i] >= 0 && cases[i] < double(bench.cases.size()) && cases[i] == std::floor(cases[i]),
          "row {} of '/derived/rooflines/case' is {}; there are {} cases", i, cases[i], bench.cases.size());
    all.push_back({limits[i], std::size_t(cases[i])});
  }
  return all;
}

}  // namespace

BenchFile read_bench(const Reader& file) {
  BenchFile bench;
  bench.cases = read_cases(file);
  read_samples(file, bench);
  for (const Roofline& r : read_rooflines(file, bench)) {
    const BenchFigures f = figures_of(bench.cases[r.index], bench.samples[r.index], {});
    bench.rooflines[r.limit] = roofline_rate(r.limit, bench.cases[r.index], f.median);
  }
  return bench;
}

std::vector<Finding> bench_findings(const Reader& file) {
  std::vector<Finding> findings;
  const auto compare = [&](const std::string& path, const std::vector<double>& stored,
                           const std::vector<double>& computed) {
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (agree(stored[i], computed[i])) continue;
      findings.push_back({true, path, fmt::format("row {} is {}; its samples give {}", i, stored[i], computed[i])});
      return;  // the first row says what is wrong with the column
    }
  };
  try {
    const BenchFile bench = read_bench(file);
    const std::size_t rows = bench.cases.size();
    if (rows == 0) findings.push_back({false, "/cases", "no case was recorded"});
    std::vector<BenchFigures> figures;
    std::vector<double> counts;
    for (std::size_t i = 0; i < rows; ++i) {
      figures.push_back(figures_of(bench.cases[i], bench.samples[i], bench.rooflines));
      counts.push_back(double(figures.back().samples));
      const BenchCase& c = bench.cases[i];
      if (c.skipped.empty() && c.no_check.empty() && !(c.error <= c.bound))
        findings.push_back(
            {true, "/cases/error", fmt::format("case '{}' is wrong by {}, more than {}", c.name, c.error, c.bound)});
    }
    compare("/derived/cases/samples", column(file, "/derived/cases/samples", rows), counts);
    for (const BenchFigureColumn& c : kBenchFigures) {
      std::vector<double> computed;
      for (const BenchFigures& f : figures) computed.push_back(f.*c.field);
      const std::string path = std::string("/derived/cases/") + c.name;
      compare(path, column(file, path, rows), computed);
    }
    std::vector<double> rates;
    for (const Roofline& r : read_rooflines(file, bench)) rates.push_back(bench.rooflines.at(r.limit));
    compare("/derived/rooflines/rate", column(file, "/derived/rooflines/rate", rates.size()), rates);
  } catch (const Error& e) {
    findings.push_back({true, "/cases", e.what()});
  }
  return findings;
}

}  // namespace mylos::measure
