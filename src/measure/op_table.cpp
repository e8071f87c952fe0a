#include "measure/op_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"

namespace mylos::measure {
namespace {

model::Phase phase_of(std::string_view name) {
  for (const model::Phase p :
       {model::Phase::forward, model::Phase::backward, model::Phase::recompute, model::Phase::optimizer})
    if (model::name_of(p) == name) return p;
  fail("'{}' is no phase of a step; a region names forward, backward, recompute or optimizer", name);
}

void add_roofline(OpRow& row, const std::optional<DevicePeak>& peak) {
  // Muon's iteration counts as the optimizer's, yet it is products.
  row.compute_bound =
      row.op_class() == OpClass::products || row.op_class() == OpClass::attention || row.cost.op == "newton_schulz";
  if (!peak) return;
  const double rate = peak_of(*peak, row.cost.dtype);
  if (rate <= 0 || peak->memory_bandwidth <= 0) return;
  const double compute_s = row.cost.flops / rate, memory_s = row.cost.bytes / peak->memory_bandwidth;
  row.compute_bound = compute_s > memory_s;
  row.roofline_s = std::max(compute_s, memory_s);
}

// One line of the table; a figure that is not known is a dash.
std::string line(const std::string& op, std::string_view phase, const std::string& calls, double seconds, double step_s,
                 const std::string& rate, double roofline_s) {
  const std::string roofline = roofline_s > 0 ? fmt::format("{:.3f}", 1e3 * roofline_s) : "-";
  const std::string reached = roofline_s > 0 && seconds > 0 ? fmt::format("{:.1f}%", 100 * roofline_s / seconds) : "-";
  return fmt::format("{:<24} {:<10} {:>6} {:>11.3f} {:>6.1f}% {:>15} {:>11} {:>8}\n", op, phase, calls, 1e3 * seconds,
                     100 * seconds / step_s, rate, roofline, reached);
}

std::string rate_of(double flops, double bytes, double seconds, bool compute_bound) {
  if (seconds <= 0 || (compute_bound ? flops : bytes) <= 0) return "-";
  const double rate = (compute_bound ? flops : bytes) / seconds;
  const bool tera = rate >= 1e12;
  return fmt::format("{:.4g} {}{}", rate * (tera ? 1e-12 : 1e-9), tera ? 'T' : 'G', compute_bound ? "FLOP/s" : "B/s");
}

}  // namespace

const char* name_of(OpClass c) {
  switch (c) {
    case OpClass::products:
      return "products";
    case OpClass::attention:
      return "attention";
    case OpClass::memory_bound:
      return "memory-bound";
    case OpClass::optimizer:
      break;
  }
  return "optimizer";
}

OpClass op_class(std::string_view phase, std::string_view op) {
  if (phase == model::name_of(model::Phase::optimizer)) return OpClass::optimizer;
  if (op.starts_with("matmul/") || op.starts_with("linear_cross_entropy")) return OpClass::products;
  return op == "attention" ? OpClass::attention : OpClass::memory_bound;
}

OpClass OpRow::op_class() const { return measure::op_class(model::name_of(cost.phase), cost.op); }

OpTable op_table(const std::vector<OpTime>& times, std::int64_t steps, double step_s,
                 const std::vector<model::OpCost>& ledger, const std::optional<DevicePeak>& peak) {
  check(steps >= 1 && step_s > 0, "{} steps of {} s give no table of ops; measure at least one", steps, step_s);
  OpTable table;
  table.step_s = step_s;
  for (const model::OpCost& cost : ledger) {
    table.rows.push_back(OpRow{});
    table.rows.back().cost = cost;
  }
  double inside_s = 0;
  for (const OpTime& t : times) {
    const model::Phase phase = phase_of(t.phase);
    auto row = std::find_if(table.rows.begin(), table.rows.end(),
                            [&](const OpRow& r) { return r.cost.phase == phase && r.cost.op == t.op; });
    if (row == table.rows.end()) {
      row = table.rows.insert(table.rows.end(), OpRow{});
      row->cost = {t.op, phase, t.calls / steps, 0, 0, DType::f32};
    }
    row->calls = double(t.calls) / double(steps);
    row->seconds = t.seconds / double(steps);
    inside_s += row->seconds;
  }
  for (OpRow& row : table.rows) add_roofline(row, peak);
  table.between_s = step_s - inside_s;
  return table;
}

std::string to_text(const OpTable& table) {
  std::string s = fmt::format("{:<24} {:<10} {:>6} {:>11} {:>7} {:>15} {:>11} {:>8}\n", "op", "phase", "calls",
                              "ms a step", "share", "rate", "roofline ms", "reached");
  std::vector<std::size_t> order(table.rows.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return table.rows[a].seconds > table.rows[b].seconds; });
  for (const std::size_t i : order) {
    const OpRow& r = table.rows[i];
    s += line(r.cost.op, model::name_of(r.cost.phase), fmt::format("{:.6g}", r.calls), r.seconds, table.step_s,
              rate_of(r.cost.flops, r.cost.bytes, r.seconds, r.compute_bound), r.roofline_s);
  }
  s += '\n';
  double roofline_s = 0;
  bool all_known = true;
  for (const OpClass c : {OpClass::products, OpClass::attention, OpClass::memory_bound, OpClass::optimizer}) {
    OpRow sum{};
    bool known = true;
    for (const OpRow& r : table.rows) {
      if (r.op_class() != c) continue;
      sum.calls += r.calls;
      sum.seconds += r.seconds;
      sum.roofline_s += r.roofline_s;
      sum.cost.flops += r.cost.flops;
      sum.cost.bytes += r.cost.bytes;
      known = known && (r.roofline_s > 0 || r.cost.flops + r.cost.bytes == 0);
    }
    s += line(name_of(c), "all", fmt::format("{:.6g}", sum.calls), sum.seconds, table.step_s,
              rate_of(sum.cost.flops, sum.cost.bytes, sum.seconds, c == OpClass::products || c == OpClass::attention),
              known ? sum.roofline_s : 0);
    roofline_s += sum.roofline_s;
    all_known = all_known && known;
  }
  s += line("between ops", "", "", table.between_s, table.step_s, "-", 0);
  s += line("step", "", "", table.step_s, table.step_s, "-", all_known ? roofline_s : 0);
  return s;
}

nlohmann::ordered_json to_json(const OpTable& table) {
  nlohmann::ordered_json j;
  j["step_s"] = table.step_s;
  j["between_ops_s"] = table.between_s;
  j["ops"] = nlohmann::ordered_json::array();
  for (const OpRow& r : table.rows) {
    nlohmann::ordered_json row = {{"op", r.cost.op},
                                  {"phase", model::name_of(r.cost.phase)},
                                  {"class", name_of(r.op_class())},
                                  {"calls", r.calls},
                                  {"time_s", r.seconds},
                                  {"share", r.share(table.step_s)},
                                  {"flops", r.cost.flops},
                                  {"bytes", r.cost.bytes},
                                  {"bound", r.compute_bound ? "compute" : "memory"}};
    if (r.roofline_s > 0) row.update({{"roofline_s", r.roofline_s}, {"of_roofline", r.of_roofline()}});
    j["ops"].push_back(std::move(row));
  }
  return j;
}

}  // namespace mylos::measure
