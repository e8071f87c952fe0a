#include "measure/kernel_trace_bundle.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/error.hpp"

namespace mylos::measure {

using checkpoint::About;
using checkpoint::Reader;

namespace {

constexpr std::size_t kShownKernels = 30;
constexpr KernelKind kKinds[] = {KernelKind::kernel, KernelKind::copy, KernelKind::set, KernelKind::host};
constexpr const char* kRecords = "/samples/kernels/";
constexpr const char* kWindows = "/samples/steps/";
constexpr const char* kRows = "/derived/kernels/";
constexpr const char* kCategories = "/derived/categories/";

double product(const std::array<std::int32_t, 3>& sizes) {
  return double(sizes[0]) * double(sizes[1]) * double(sizes[2]);
}

// Columns of /derived/kernels and /derived/categories, figures of one step.
struct RowColumns {
  std::vector<std::string> name, region, category;
  std::vector<double> calls, time, exposed;

  template <class Row>
  void add(const Row& r, double steps) {
    calls.push_back(double(r.calls) / steps);
    time.push_back(r.time_s / steps);
    exposed.push_back(r.exposed_s / steps);
  }
};

RowColumns rows_of(const KernelProfile& p) {
  RowColumns c;
  for (const KernelRow& r : p.table.rows) {
    c.name.push_back(p.records.names[r.name]);
    c.region.push_back(p.records.regions[r.region].label());
    c.category.emplace_back(name_of(r.category));
    c.add(r, double(p.table.steps));
  }
  return c;
}

RowColumns categories_of(const KernelTable& table) {
  RowColumns c;
  for (std::size_t i = 0; i < kKernelCategories; ++i) {
    c.category.emplace_back(name_of(KernelCategory(i)));
    c.add(table.categories[i], double(table.steps));
  }
  c.category.emplace_back("idle");
  c.add(CategoryRow{0, table.idle_s, table.idle_s}, double(table.steps));
  return c;
}

RegionName region_of(const std::string& label) {
  constexpr std::string_view kStart = "mylos::";
  if (label.empty()) return {};
  const std::size_t end = label.find("::", kStart.size());
  check(label.starts_with(kStart) && end != std::string::npos, "'{}' is no region: they are mylos::PHASE::OP", label);
  return {label.substr(kStart.size(), end - kStart.size()), label.substr(end + 2)};
}

std::vector<double> column(const Reader& file, const std::string& path, std::size_t rows) {
  std::vector<double> values = file.reals(path);
  check(values.size() == rows, "{} has {} rows, the first column of its table {}", path, values.size(), rows);
  return values;
}

std::int64_t whole(double value, double low, double high, const std::string& path) {
  check(value >= low && value <= high && value == std::floor(value),
        "{} has {}; whole numbers from {} to {} can be there", path, value, low, high);
  return std::int64_t(value);
}

std::int64_t nanoseconds(double s, const std::string& path) {
  check(std::abs(s) < 1e6, "{} has {}; a profile is shorter than 1e6 s", path, s);
  return std::llround(1e9 * s);
}

}  // namespace

void put_kernels(Bundle& bundle, const KernelProfile& p) {
  const double steps = double(p.table.steps);
  const std::int64_t origin_ns = p.windows.front().begin_ns;
  const auto seconds = [&](std::int64_t ns) { return double(ns - origin_ns) * 1e-9; };
  const int windows =
      bundle.add_table("samples", "steps",
                       {{"step", "1", "optimizer step, the first is 1"},
                        {"begin", "s", "end of the last work of the step before, since the first one's begin"},
                        {"end", "s", "end of its own last work"},
                        {"step_time", "s", "from begin to end"}});
  for (const StepWindow& w : p.windows)
    bundle.append(windows,
                  {double(w.mark), seconds(w.begin_ns), seconds(w.end_ns), double(w.end_ns - w.begin_ns) * 1e-9});
  const int records = bundle.add_table("samples", "kernels",
                                       {{"begin", "s", "since the first step's begin"},
                                        {"end", "s", "since the first step's begin"},
                                        {"kernel", "1", "row of /derived/kernels"},
                                        {"step", "1", "step that queued it; -1: none"},
                                        {"stream", "1", "number of the queue"},
                                        {"kind", "1", "0 kernel, 1 copy, 2 set, 3 host code and libraries of a CPU"},
                                        {"in_graph", "1", "1: part of a recorded graph"},
                                        {"blocks", "1", "thread blocks of a GPU's kernel; 0: not known"},
                                        {"threads", "1", "threads of a block"},
                                        {"bytes", "byte", "that a copy or set wrote; 0: not known"}});
  for (std::size_t i = 0; i < p.records.records.size(); ++i) {
    if (p.table.row_of[i] == KernelTable::kNoRow) continue;
    const KernelRecord& r = p.records.records[i];
    bundle.append(records,
                  {seconds(r.begin_ns), seconds(r.end_ns), double(p.table.row_of[i]), double(r.mark), double(r.stream),
                   double(int(r.kind)), r.in_graph ? 1.0 : 0.0, product(r.grid), product(r.block), double(r.bytes)});
  }
  const About calls{"1", "in one step, mean"}, time{"s", "sum of durations in one step, mean"},
      exposed{"s", "of a step that is given to it where work overlaps: with idle these add up to the step, mean"};
  RowColumns rows = rows_of(p);
  const std::string at = kRows;
  bundle.set_column(at + "name", rows.name, {"1", "kernel, as a person reads it"});
  bundle.set_column(at + "region", rows.region, {"1", "that queued it, mylos::PHASE::OP; empty: none"});
  bundle.set_column(at + "category", rows.category, {"1", "what it counts as"});
  bundle.set_column(at + "calls", rows.calls, calls);
  bundle.set_column(at + "time", rows.time, time);
  bundle.set_column(at + "exposed", rows.exposed, exposed);
  rows = categories_of(p.table);
  const std::string sums = kCategories;
  bundle.set_column(sums + "category", rows.category, {"1", "of kernels; idle: no work of any"});
  bundle.set_column(sums + "calls", rows.calls, calls);
  bundle.set_column(sums + "time", rows.time, time);
  bundle.set_column(sums + "exposed", rows.exposed, exposed);
  bundle.set_summary("step_time", p.table.window_s / steps, {"s", "of a profiled step, mean"});
  bundle.set_summary("idle", p.table.idle_s / steps, {"s", "of it without any work, mean"});
  bundle.set_summary("outside_regions", p.table.outside_regions_s / steps,
                     {"s", "kernels in one step that no region queued, mean"});
  bundle.set_attribute("/samples", "source", p.records.source);
}

bool has_kernels(const Reader& file) { return file.has_group("/samples/kernels"); }

KernelProfile read_kernels(const Reader& file) {
  KernelProfile p;
  const std::string rows_at = kRows, records_at = kRecords, windows_at = kWindows;
  p.records.names = file.texts(rows_at + "name");
  const std::vector<std::string> labels = file.texts(rows_at + "region");
  check(labels.size() == p.records.names.size(), "{}region has {} rows, {}name {}", rows_at, labels.size(), rows_at,
        p.records.names.size());
  p.records.regions.emplace_back();
  for (const std::string& label : labels) p.records.regions.push_back(region_of(label));

  const std::vector<double> begin = file.reals(records_at + "begin");
  const std::size_t count = begin.size();
  check(count <= KernelTrace::kMostRecords, "{}begin has {} rows; a profile has at most {}", records_at, count,
        KernelTrace::kMostRecords);
  const std::vector<double> end = column(file, records_at + "end", count),
                            kernel = column(file, records_at + "kernel", count),
                            step = column(file, records_at + "step", count),
                            kind = column(file, records_at + "kind", count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = std::uint32_t(whole(kernel[i], 0, double(labels.size()) - 1, records_at + "kernel"));
    p.records.records.push_back({.begin_ns = nanoseconds(begin[i], records_at + "begin"),
                                 .end_ns = nanoseconds(end[i], records_at + "end"),
                                 .name = row,
                                 .region = labels[row].empty() ? 0 : row + 1,
                                 .mark = std::int32_t(whole(step[i], -1, 2e9, records_at + "step")),
                                 .kind = kKinds[whole(kind[i], 0, 3, records_at + "kind")]});
  }
  const std::vector<double> steps = file.reals(windows_at + "step");
  check(!steps.empty(), "{}step has no row", windows_at);
  const std::vector<double> from = column(file, windows_at + "begin", steps.size()),
                            to = column(file, windows_at + "end", steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    p.windows.push_back({std::int32_t(whole(steps[i], 0, 2e9, windows_at + "step")),
                         nanoseconds(from[i], windows_at + "begin"), nanoseconds(to[i], windows_at + "end")});
    const bool ordered = from[i] < to[i] && (i == 0 || to[i - 1] <= from[i]);
    check(ordered, "row {} of {} is no window after the one before it", i, windows_at);
  }
  p.table = kernel_table(p.records, p.windows);
  return p;
}

namespace {

// Both in seconds or calls of one step; a record's ends are exact to a nanosecond.
bool same(double stored, double computed) { return std::abs(stored - computed) <= 1e-6 * std::abs(computed) + 2e-8; }

class Findings {
 public:
  std::vector<Finding> all;
  void compare(const Reader& file, const std::string& path, const std::vector<double>& computed) {
    const std::vector<double> stored = column(file, path, computed.size());
    for (std::size_t i = 0; i < stored.size(); ++i)
      if (!same(stored[i], computed[i]))
        return add(path, fmt::format("row {} is {}, its records give {}", i, stored[i], computed[i]));
  }
  void add(const std::string& where, const std::string& what) { all.push_back({true, where, what}); }
};

}  // namespace

std::vector<Finding> kernel_findings(const Reader& file) {
  Findings found;
  try {
    const KernelProfile p = read_kernels(file);
    const double steps = double(p.table.steps);
    // Rows come in the order of the file's, by the name that each has to itself.
    const std::size_t count = p.records.names.size();
    RowColumns rows;
    rows.category.resize(count);
    for (auto* column : {&rows.calls, &rows.time, &rows.exposed}) column->resize(count);
    for (const KernelRow& r : p.table.rows) {
      rows.category[r.name] = name_of(r.category);
      rows.calls[r.name] = double(r.calls) / steps;
      rows.time[r.name] = r.time_s / steps;
      rows.exposed[r.name] = r.exposed_s / steps;
    }
    const RowColumns sums = categories_of(p.table);
    const std::pair<std::string, const RowColumns*> tables[] = {{kRows, &rows}, {kCategories, &sums}};
    for (const auto& [at, columns] : tables) {
      if (file.texts(at + "category") != columns->category)
        found.add(at + "category", "is not what kinds, names and regions give");
      found.compare(file, at + "calls", columns->calls);
      found.compare(file, at + "time", columns->time);
      found.compare(file, at + "exposed", columns->exposed);
    }
    for (const auto& [name, value] : {std::pair{"step_time", p.table.window_s},
                                      {"idle", p.table.idle_s},
                                      {"outside_regions", p.table.outside_regions_s}}) {
      const std::string path = std::string("/summary/") + name;
      if (!same(file.real(path), value / steps))
        found.add(path, fmt::format("is {}, the records give {}", file.real(path), value / steps));
    }
  } catch (const Error& e) {
    found.add("/samples/kernels", e.what());
  }
  return found.all;
}

nlohmann::ordered_json kernel_summary(const Reader& file) {
  try {
    const KernelProfile p = read_kernels(file);
    return {{"table", to_text(p.table, p.records, kShownKernels)}};
  } catch (const Error& e) {
    return {{"damaged", e.what()}};
  }
}

}  // namespace mylos::measure
