#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "measure/bench_record_columns.hpp"
#include "measure/bench_record_file.hpp"

namespace mylos::measure {

using Json = nlohmann::ordered_json;

namespace {

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }  // JSON has no NaN

std::string per_second(const Json& row) {
  const auto value = [&](const char* name) { return row[name].is_null() ? 0.0 : row[name].get<double>(); };
  const auto text = [](double rate, const char* units) {
    return rate >= 1e12 ? fmt::format("{:.4g} T{}/s", rate * 1e-12, units)
                        : fmt::format("{:.4g} G{}/s", rate * 1e-9, units);
  };
  // Items are what a case says of itself; of the other two the one that a reader of FLOPs expects comes first.
  if (value("item_rate") > 0) return fmt::format("{:.4g} /s", value("item_rate"));
  if (value("flop_rate") > 0) return text(value("flop_rate"), "FLOP");
  return value("byte_rate") > 0 ? text(value("byte_rate"), "B") : "-";
}

}  // namespace

Json bench_table(const checkpoint::Reader& file) {
  Json rows = Json::array();
  try {
    const BenchFile bench = read_bench(file);
    for (std::size_t i = 0; i < bench.cases.size(); ++i) {
      const BenchCase& c = bench.cases[i];
      const BenchFigures f = figures_of(c, bench.samples[i], bench.rooflines);
      Json row = {{"name", c.name},           {"component", c.component},
                  {"dtype", c.dtype},         {"cache", c.warm ? "warm" : "cold"},
                  {"samples", f.samples},     {"rejected", std::int64_t(bench.samples[i].size()) - f.samples},
                  {"stop", c.stop},           {"skipped", c.skipped},
                  {"error", number(c.error)}, {"bound", number(c.bound)}};
      for (const BenchFigureColumn& column : kBenchFigures) row[column.name] = number(f.*column.field);
      rows.push_back(std::move(row));
    }
  } catch (const Error& e) {
    rows = Json::array({{{"damaged", e.what()}}});
  }
  return rows;
}

std::string bench_table_text(const Json& rows) {
  std::size_t width = 4;
  const auto text_of = [](const Json& row, const char* key) { return printable(row[key].get<std::string>()); };
  for (const Json& row : rows)
    if (row.contains("name")) width = std::max(width, text_of(row, "name").size());
  std::string out = fmt::format("\n{:<{}} {:>12} {:>8} {:>7} {:>16} {:>8}\n", "case", width, "median us", "95% +-",
                                "samples", "rate", "of limit");
  for (const Json& row : rows) {
    if (row.contains("damaged")) return "\nno table of cases: " + text_of(row, "damaged") + "\n";
    const std::string name = text_of(row, "name");
    if (row["median"].is_null()) {
      const std::string why = text_of(row, "skipped");
      out += fmt::format("{:<{}} {}\n", name, width, why.empty() ? "every sample was rejected" : "skipped: " + why);
      continue;
    }
    const double median = row["median"].get<double>();
    const double half = 0.5 * (row["median_high"].get<double>() - row["median_low"].get<double>());
    out += fmt::format("{:<{}} {:>12.3f} {:>7.2f}% {:>7} {:>16} {:>8}\n", name, width, 1e6 * median,
                       100 * half / median, row["samples"].get<std::int64_t>(), per_second(row),
                       row["share"].is_null() ? "-" : fmt::format("{:.1f}%", 100 * row["share"].get<double>()));
  }
  return out;
}

}  // namespace mylos::measure
