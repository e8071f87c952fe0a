#include "measure/kernel_trace_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "measure/op_table.hpp"

namespace mylos::measure {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool any_of(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return has(text, part); });
}

// Kernels of the project's own are Kokkos functors, named or labelled mylos::; its products are not passes over memory, nor are CUTLASS's with an epilogue of ours.
bool is_own_product(std::string_view name) {
  return any_of(name, {"mylos::kernels::hopper::tiles", "matmul::reference", "cutlass"});
}
bool is_memory_bound_part(std::string_view name) { return has(name, "mylos::") && !is_own_product(name); }

struct Edge {
  std::int64_t at_ns;
  bool opens;
  std::uint32_t record;
};

// Gives each instant of the window to one of the records that run in it.
class Sweep {
 public:
  Sweep(const KernelRecords& records, KernelTable& table) : records_(records), table_(table) {}

  void window(const StepWindow& w, std::span<const std::uint32_t> inside) {
    std::vector<Edge> edges;
    for (const std::uint32_t i : inside) {
      const KernelRecord& r = records_.records[i];
      const std::int64_t begin = std::max(r.begin_ns, w.begin_ns), end = std::min(r.end_ns, w.end_ns);
      if (begin >= end) continue;
      row(i).time_s += double(end - begin) * 1e-9;
      edges.push_back({begin, true, i});
      edges.push_back({end, false, i});
    }
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at_ns < b.at_ns; });
    std::set<std::tuple<KernelCategory, std::int64_t, std::uint32_t>> running;
    std::int64_t idle_ns = 0, at_ns = w.begin_ns;
    for (const Edge& e : edges) {
      if (running.empty())
        idle_ns += e.at_ns - at_ns;
      else
        row(std::get<2>(*running.begin())).exposed_s += double(e.at_ns - at_ns) * 1e-9;
      at_ns = e.at_ns;
      const std::tuple key{row(e.record).category, records_.records[e.record].begin_ns, e.record};
      if (e.opens)
        running.insert(key);
      else
        running.erase(key);
    }
    table_.idle_s += double(idle_ns + w.end_ns - at_ns) * 1e-9;
    table_.window_s += double(w.end_ns - w.begin_ns) * 1e-9;
  }

  KernelRow& row(std::uint32_t record) { return table_.rows[table_.row_of[record]]; }

 private:
  const KernelRecords& records_;
  KernelTable& table_;
};

std::string line(std::string_view name, std::string_view more, double calls, double time_s, double exposed_s,
                 double step_s) {
  return fmt::format("{:>8.6g} {:>11.3f} {:>11.3f} {:>6.1f}%  {}{}{}\n", calls, 1e3 * time_s, 1e3 * exposed_s,
                     100 * exposed_s / step_s, name, more.empty() ? "" : "  ", more);
}

}  // namespace

const char* name_of(KernelCategory category) {
  switch (category) {
    case KernelCategory::products:
      return "products";
    case KernelCategory::attention:
      return "attention";
    case KernelCategory::optimizer:
      return "optimizer";
    case KernelCategory::memory_bound:
      return "memory-bound";
    case KernelCategory::communication:
      return "communication";
    case KernelCategory::copy_set:
      break;
  }
  return "copy, set";
}

KernelCategory category_of(std::string_view name, KernelKind kind, const RegionName& region) {
  if (kind == KernelKind::copy || kind == KernelKind::set) return KernelCategory::copy_set;
  if (any_of(name, {"ncclDevKernel", "ncclKernel"})) return KernelCategory::communication;
  if (region.empty()) {
    if (any_of(name, {"sdpa", "fmha", "flash", "attention"})) return KernelCategory::attention;
    const bool product = is_own_product(name) || any_of(name, {"gemm", "nvjet", "splitK", "xmma"});
    return product ? KernelCategory::products : KernelCategory::memory_bound;
  }
  switch (op_class(region.phase, region.op)) {
    case OpClass::optimizer:
      return KernelCategory::optimizer;
    case OpClass::attention:
      return KernelCategory::attention;
    case OpClass::products:
      return is_memory_bound_part(name) ? KernelCategory::memory_bound : KernelCategory::products;
    case OpClass::memory_bound:
      break;
  }
  return KernelCategory::memory_bound;
}

std::vector<StepWindow> step_windows(const KernelRecords& records, std::int32_t first, std::int32_t count) {
  std::vector<StepWindow> windows;
  for (std::int32_t mark = first; mark < first + count; ++mark) {
    std::optional<std::int64_t> own_begin, own_end, begin;
    for (const KernelRecord& r : records.records) {
      if (r.mark != mark) continue;
      own_begin = std::min(own_begin.value_or(r.begin_ns), r.begin_ns);
      own_end = std::max(own_end.value_or(r.end_ns), r.end_ns);
    }
    check(own_end.has_value(), "no kernel of step {} was recorded", mark);
    for (const KernelRecord& r : records.records) {
      const bool before =
          r.mark == KernelRecord::kNoMark ? r.end_ns <= *own_begin : r.mark < mark && r.end_ns < *own_end;
      if (before) begin = std::max(begin.value_or(r.end_ns), r.end_ns);
    }
    check(begin.has_value(), "no kernel before step {} was recorded: its begin is not known", mark);
    windows.push_back({mark, *begin, *own_end});
  }
  return windows;
}

KernelTable kernel_table(const KernelRecords& records, std::span<const StepWindow> windows) {
  KernelTable table;
  table.steps = std::int64_t(windows.size());
  table.row_of.assign(records.records.size(), KernelTable::kNoRow);
  std::vector<std::vector<std::uint32_t>> inside(windows.size());
  std::map<std::tuple<std::uint32_t, std::uint32_t, KernelCategory>, std::uint32_t> places;
  for (std::uint32_t i = 0; i < records.records.size(); ++i) {
    const KernelRecord& r = records.records[i];
    const auto counts = [&](const StepWindow& w) { return r.end_ns > w.begin_ns && r.end_ns <= w.end_ns; };
    const auto meets = [&](const StepWindow& w) {
      return r.end_ns > w.begin_ns && (r.begin_ns < w.end_ns || counts(w));
    };
    if (std::none_of(windows.begin(), windows.end(), meets)) continue;
    const RegionName& region = records.regions.at(r.region);
    const KernelCategory category = category_of(records.names.at(r.name), r.kind, region);
    const auto [place, is_new] = places.try_emplace({r.name, r.region, category}, std::uint32_t(table.rows.size()));
    if (is_new) table.rows.push_back({r.name, r.region, category});
    table.row_of[i] = place->second;
    for (std::size_t w = 0; w < windows.size(); ++w) {
      if (meets(windows[w])) inside[w].push_back(i);
      if (counts(windows[w])) ++table.rows[place->second].calls;
    }
  }
  Sweep sweep(records, table);
  for (std::size_t w = 0; w < windows.size(); ++w) sweep.window(windows[w], inside[w]);

  std::vector<std::uint32_t> order(table.rows.size()), rank(table.rows.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return table.rows[a].exposed_s > table.rows[b].exposed_s; });
  std::vector<KernelRow> sorted;
  for (const std::uint32_t i : order) {
    rank[i] = std::uint32_t(sorted.size());
    const KernelRow& r = sorted.emplace_back(table.rows[i]);
    CategoryRow& c = table.categories[std::size_t(r.category)];
    c.calls += r.calls;
    c.time_s += r.time_s;
    c.exposed_s += r.exposed_s;
    if (records.regions[r.region].empty() && r.category != KernelCategory::copy_set)
      table.outside_regions_s += r.time_s;
  }
  table.rows = std::move(sorted);
  for (std::uint32_t& row : table.row_of)
    if (row != KernelTable::kNoRow) row = rank[row];
  return table;
}

std::string to_text(const KernelTable& table, const KernelRecords& records, std::size_t most) {
  const double steps = double(table.steps), step_s = table.window_s / steps;
  const std::string head = fmt::format("{:>8} {:>11} {:>11} {:>7}  ", "calls", "ms a step", "exposed ms", "share");
  std::string s = head + "category\n";
  for (std::size_t i = 0; i < kKernelCategories; ++i) {
    const CategoryRow& c = table.categories[i];
    s += line(name_of(KernelCategory(i)), "", double(c.calls) / steps, c.time_s / steps, c.exposed_s / steps, step_s);
  }
  s += line("idle", "", 0, table.idle_s / steps, table.idle_s / steps, step_s);
  s += line("step", "", 0, step_s, step_s, step_s);
  s += "\n" + head + "kernel, region\n";
  for (std::size_t i = 0; i < std::min(most, table.rows.size()); ++i) {
    const KernelRow& r = table.rows[i];
    s += line(printable(records.names[r.name]), printable(records.regions[r.region].label()), double(r.calls) / steps,
              r.time_s / steps, r.exposed_s / steps, step_s);
  }
  if (table.rows.size() > most) s += fmt::format("and {} kernels more\n", table.rows.size() - most);
  return s;
}

}  // namespace mylos::measure
