#include "benchmarks/harness/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <new>
#include <set>

#include "benchmarks/harness/list.hpp"

namespace mylos::bench {
namespace {

std::string rate(double per_second, const char* unit) {
  if (!(per_second > 0)) return "";
  for (const auto& [factor, prefix] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (per_second >= factor) return fmt::format("{:.3g} {}{}", per_second / factor, prefix, unit);
  return fmt::format("{:.3g} {}", per_second, unit);
}

std::string duration(double s) {
  if (s < 1e-6) return fmt::format("{:.1f} ns", s * 1e9);
  if (s < 1e-3) return fmt::format("{:.2f} us", s * 1e6);
  return s < 1 ? fmt::format("{:.3f} ms", s * 1e3) : fmt::format("{:.3f} s", s);
}

}  // namespace

std::vector<const Case*> with_rooflines(const Cases& all, const std::vector<std::size_t>& chosen) {
  std::set<std::string> needed;
  for (const std::size_t i : chosen) {
    const Case& c = all[i];
    const bool host = c.runs == Runs::host;
    if (c.work.bytes > 0) needed.insert(host ? "host_memory" : "memory");
    if (c.work.flops > 0 && !host) needed.insert(c.dtype);
  }
  std::vector<const Case*> list;
  for (const Case& c : all)
    if (!c.limit.empty() && needed.contains(c.limit)) list.push_back(&c);
  for (const std::size_t i : chosen)
    if (std::find(list.begin(), list.end(), &all[i]) == list.end()) list.push_back(&all[i]);
  return list;
}

bool only_moves(const Case& c) { return c.runs != Runs::host && c.work.bytes > 0 && c.work.flops == 0; }

Session::Session(Pool& pool, const MeasureOptions& options, const measure::GpuSensor* sensor, measure::Bundle* bundle,
                 measure::BenchRecord& record)
    : pool_(pool), options_(options), sensor_(sensor), bundle_(bundle), record_(record) {}

void Session::add(const Case& c) {
  benchmark::RegisterBenchmark(c.name.c_str(), [this, &c](benchmark::State& state) { run(c, state); })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

void Session::run(const Case& c, benchmark::State& state) {
  std::string failed, skipped;
  try {
    const Measured m = measure_case(c, pool_, options_, sensor_);
    record_.add(m.about, m.samples);
    if (!c.limit.empty()) record_.roofline(c.limit, c.name);
  } catch (const NoRoom& e) {
    skipped = e.what();
  } catch (const std::bad_alloc&) {
    skipped = "the host has not the memory that it needs";
  } catch (const Error& e) {
    failed = std::string("failed: ") + e.what();
  }
  if (!failed.empty() || !skipped.empty()) {
    ++(failed.empty() ? without_room_ : failures_);
    const std::string why = failed.empty() ? skipped : failed;
    record_.add(not_measured(c, why), {});
    state.SkipWithError(why.c_str());
    return;
  }
  const measure::BenchFigures f = record_.figures(int(record_.cases().size()) - 1);
  for (auto _ : state) state.SetIterationTime(f.median);
  const auto count = [&](const char* name, double value) {
    if (std::isfinite(value)) state.counters[name] = value;
  };
  count("median_s", f.median);
  count("low_s", f.low);
  count("high_s", f.high);
  count("samples", double(f.samples));
  count("FLOP/s", f.flop_rate);
  count("B/s", f.byte_rate);
  count("items/s", f.item_rate);
  count("of_roofline", f.share);
  if (bundle_ != nullptr) bundle_->maybe_publish();
}

std::string Session::header() {
  return fmt::format("{:<56} {:>11} {:>7} {:>5}  {:>13} {:>11} {:>16} {:>6} {:>6}  {}", "case", "median", "+-", "n",
                     "FLOP/s", "bytes/s", "items/s", "share", "same", "caches, stop, check");
}

std::string Session::line(std::size_t index) const {
  const measure::BenchCase& c = record_.cases()[index];
  if (!c.skipped.empty()) return fmt::format("{:<56} {}", c.name, c.skipped);
  const measure::BenchFigures f = record_.figures(int(index));
  const std::string check = c.check.empty() ? "no check" : fmt::format("{:.1e} of {:.1e}", c.error, c.bound);
  const auto share = [](double part) { return std::isfinite(part) ? fmt::format("{:.3f}", part) : std::string(); };
  return fmt::format("{:<56} {:>11} {:>6.2f}% {:>5}  {:>13} {:>11} {:>16} {:>6} {:>6}  {}, {}, {}", c.name,
                     duration(f.median), 50 * (f.high - f.low) / f.median, f.samples, rate(f.flop_rate, "FLOP/s"),
                     rate(f.byte_rate, "B/s"), c.items > 0 ? rate(f.item_rate, (c.item_units + "/s").c_str()) : "",
                     share(f.share), share(copy_s(c) / f.median), c.warm ? "warm" : "cold", c.stop, check);
}

double Session::copy_s(const measure::BenchCase& c) const {
  const std::string name = copy_name(c.bytes);
  for (std::size_t i = 0; i < record_.cases().size(); ++i)
    if (c.bytes > 0 && c.flops == 0 && record_.cases()[i].name == name) return record_.figures(int(i)).median;
  return NAN;
}

class Session::Lines : public benchmark::BenchmarkReporter {
 public:
  explicit Lines(const Session& session) : session_(session) {}
  bool ReportContext(const Context&) override {
    std::cout << header() << std::endl;
    return true;
  }
  void ReportRuns(const std::vector<Run>&) override {
    for (; next_ < session_.record_.cases().size(); ++next_) std::cout << session_.line(next_) << std::endl;
  }

 private:
  const Session& session_;
  std::size_t next_ = 0;
};

std::unique_ptr<benchmark::BenchmarkReporter> Session::reporter() { return std::make_unique<Lines>(*this); }

}  // namespace mylos::bench
