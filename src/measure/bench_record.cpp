#include "measure/bench_record.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "measure/bench_record_columns.hpp"

namespace mylos::measure {
namespace {

// A rate that what it counts does not give is not known.
double per_second(double amount, double seconds) { return amount > 0 ? amount / seconds : kNotKnown; }

void hold_against(BenchFigures& f, const BenchCase& c, const Rooflines& rooflines) {
  double longest = 0;
  const auto held = [&](double amount, const std::string& limit) {
    if (!(amount > 0)) return true;
    const auto rate = rooflines.find(limit);
    if (rate == rooflines.end()) return false;
    longest = std::max(longest, amount / rate->second);
    return true;
  };
  if (c.on_device && !held(c.flops, c.dtype)) return;
  if (!held(c.bytes, c.on_device ? kMemoryLimit : kHostMemoryLimit) || longest == 0) return;
  f.roofline = longest;
  f.share = longest / f.median;
}

void check_case(const BenchCase& c, std::span<const BenchSample> samples) {
  check(!c.name.empty() && c.name.size() <= 200, "a case needs a name of 1 to 200 bytes; '{}' has {}", c.name,
        c.name.size());
  check(!c.component.empty(), "case '{}' names no component", c.name);
  for (const double amount : {c.flops, c.bytes, c.items, c.memory_bytes, c.warm_up_s})
    check(std::isfinite(amount) && amount >= 0,
          "case '{}' counts {}; FLOPs, bytes, items and time are finite and not negative", c.name, amount);
  check(c.flops + c.bytes + c.items == 0 || !c.work_source.empty(),
        "case '{}' counts work but not where the count is from; set work_source", c.name);
  check((c.items > 0) == !c.item_units.empty(), "case '{}' has {} items of '{}'; set both or none", c.name, c.items,
        c.item_units);
  if (!c.skipped.empty()) {
    check(samples.empty(), "case '{}' is skipped ({}), yet has {} samples", c.name, c.skipped, samples.size());
    return;
  }
  check(!samples.empty(), "case '{}' has no samples; say in `skipped` why", c.name);
  check(c.calls_per_sample >= 1 && !c.stop.empty(),
        "case '{}' has {} calls a sample and stopped because of '{}'; set both", c.name, c.calls_per_sample, c.stop);
  check(c.check.empty() != c.no_check.empty(),
        "case '{}' must say either what its results were held against or why they were not", c.name);
  check(c.check.empty() || (std::isfinite(c.error) && std::isfinite(c.bound) && c.error <= c.bound),
        "case '{}' is wrong by {}, more than {} ({}); a wrong result is not timed", c.name, c.error, c.bound, c.check);
  for (const BenchSample& s : samples)
    check(std::isfinite(s.time_s) && s.time_s > 0, "case '{}' has a sample of {} s; times are finite and positive",
          c.name, s.time_s);
}

}  // namespace

double roofline_rate(const std::string& limit, const BenchCase& c, double median_s) {
  const bool of_bytes = limit == kMemoryLimit || limit == kHostMemoryLimit;
  check(of_bytes || limit == c.dtype, "case '{}' computes in '{}'; it cannot be the roofline of '{}'", c.name, c.dtype,
        limit);
  check(c.on_device == (limit != kHostMemoryLimit), "case '{}' {} on the device; it cannot be the roofline of '{}'",
        c.name, c.on_device ? "runs" : "does not run", limit);
  const double amount = of_bytes ? c.bytes : c.flops;
  check(amount > 0, "case '{}' counts no {}; it cannot be the roofline of '{}'", c.name, of_bytes ? "bytes" : "FLOPs",
        limit);
  return per_second(amount, median_s);
}

BenchFigures figures_of(const BenchCase& c, std::span<const BenchSample> samples, const Rooflines& rooflines) {
  std::vector<double> times, clocks;
  for (const BenchSample& s : samples) {
    if (s.rejected) continue;
    times.push_back(s.time_s);
    if (std::isfinite(s.sm_clock_mhz)) clocks.push_back(s.sm_clock_mhz);
  }
  BenchFigures f;
  f.samples = std::int64_t(times.size());
  hold_against(f, c, rooflines);
  if (times.empty()) return f;
  const MedianInterval interval = sample_interval(times);
  f.median = interval.median;
  f.low = interval.low;
  f.high = interval.high;
  f.mad = median_absolute_deviation(times);
  f.flop_rate = per_second(c.flops, f.median);
  f.byte_rate = per_second(c.bytes, f.median);
  f.item_rate = per_second(c.items, f.median);
  if (!clocks.empty()) f.sm_clock = median(clocks);
  f.share = f.roofline / f.median;
  return f;
}

BenchRecord::BenchRecord(Bundle& bundle, const BenchRules& rules) : bundle_(bundle) {
  check(bundle.kind() == BundleKind::bench, "benchmarks are recorded in a bundle of kind 'bench', not '{}'",
        name_of(bundle.kind()));
  check(!rules.warm_up.empty() && !rules.stop.empty() && !rules.reject.empty(),
        "the rules of warm-up, stopping and rejecting must be said, in words");
  table_ = bundle.add_table("samples", "calls",
                            {{"case", "1", "row of /cases"},
                             {"time", "s", "of one call: the mean of calls_per_sample calls that were timed together"},
                             {"sm_clock", "MHz", "SM clock when the sample ended; NaN when not known"},
                             {"power", "W", "power as the driver says it then; NaN when not known"},
                             {"temperature", "degC", "of the GPU; NaN when not known"},
                             {"throttle_reasons", "1", "NVML's bit mask of why clocks are low; NaN when not known"},
                             {"rejected", "1", "1: left out of the figures by the rule reject_rule of /samples"}});
  bundle.set_attribute("/samples", "warm_up_rule", rules.warm_up);
  bundle.set_attribute("/samples", "stop_rule", rules.stop);
  bundle.set_attribute("/samples", "reject_rule", rules.reject);
  bundle.before_publish([this](Bundle& b) { summarize(b); });
}

int BenchRecord::find(std::string_view name) const {
  const auto found = std::find_if(cases_.begin(), cases_.end(), [&](const BenchCase& c) { return c.name == name; });
  return found == cases_.end() ? -1 : int(found - cases_.begin());
}

void BenchRecord::add(const BenchCase& c, std::span<const BenchSample> samples) {
  check_case(c, samples);
  check(find(c.name) < 0, "case '{}' is recorded already", c.name);
  for (const BenchSample& s : samples)
    bundle_.append(table_, {double(cases_.size()), s.time_s, s.sm_clock_mhz, s.power_w, s.temperature_c,
                            s.throttle_reasons, s.rejected ? 1.0 : 0.0});
  cases_.push_back(c);
  figures_.push_back(figures_of(c, samples, {}));
}

void BenchRecord::roofline(const std::string& limit, const std::string& case_name) {
  const int index = find(case_name);
  check(index >= 0, "case '{}' has not been recorded; it cannot be the roofline of '{}'", case_name, limit);
  const BenchFigures& f = figures_[std::size_t(index)];
  check(f.samples > 0, "case '{}' has no accepted sample; it cannot be the roofline of '{}'", case_name, limit);
  roofline_rate(limit, cases_[std::size_t(index)], f.median);
  rooflines_[limit] = index;
}

Rooflines BenchRecord::rooflines() const {
  Rooflines rates;
  for (const auto& [limit, index] : rooflines_) {
    rates[limit] = roofline_rate(limit, cases_[std::size_t(index)], figures_[std::size_t(index)].median);
  }
  return rates;
}

BenchFigures BenchRecord::figures(int index) const {
  BenchFigures f = figures_.at(std::size_t(index));
  hold_against(f, cases_.at(std::size_t(index)), rooflines());
  return f;
}

void BenchRecord::summarize(Bundle& b) const {
  for (const BenchTextColumn& column : kBenchTexts) {
    std::vector<std::string> values;
    for (const BenchCase& c : cases_) values.push_back(c.*column.field);
    b.set_column(std::string("/cases/") + column.name, values, {"1", column.description});
  }
  for (const BenchNumberColumn& column : kBenchNumbers) {
    std::vector<double> values;
    for (const BenchCase& c : cases_) values.push_back(column.get(c));
    b.set_column(std::string("/cases/") + column.name, values, {column.units, column.description});
  }

  const Rooflines rates = rooflines();
  std::vector<BenchFigures> figures = figures_;
  std::vector<double> counts;
  for (std::size_t i = 0; i < cases_.size(); ++i) hold_against(figures[i], cases_[i], rates);
  for (const BenchFigures& f : figures) counts.push_back(double(f.samples));
  b.set_column("/derived/cases/samples", counts, {"1", "samples that were not rejected"});
  for (const BenchFigureColumn& column : kBenchFigures) {
    std::vector<double> values;
    for (const BenchFigures& f : figures) values.push_back(f.*column.field);
    b.set_column(std::string("/derived/cases/") + column.name, values, {column.units, column.description});
  }
  std::vector<std::string> limits;
  std::vector<double> indices, values;
  for (const auto& [limit, index] : rooflines_) {
    limits.push_back(limit);
    indices.push_back(double(index));
    values.push_back(rates.at(limit));
  }
  b.set_column("/derived/rooflines/limit", limits, {"1", "memory, host_memory, or the dtype of products"});
  b.set_column("/derived/rooflines/case", indices, {"1", "row of /cases that reached the rate"});
  b.set_column("/derived/rooflines/rate", values, {"1", "byte/s of memory, FLOP/s of a dtype"});
  b.set_attribute("/derived", "interval",
                  "of the median: bootstrap, its distances from the median times the root of the autocorrelation time");
}

}  // namespace mylos::measure
