#include "benchmarks/harness/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "benchmarks/harness/spin.hpp"
#include "benchmarks/harness/timer.hpp"
#include "measure/statistics.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::bench {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr std::size_t kMostSets = 1024;

// The first set's call and those of further sets on other operands.
std::vector<Call> calls_of(const Case& c, Pool& pool, Call first, const MeasureOptions& options, bool& warm) {
  std::vector<Call> calls{std::move(first)};
  const std::int64_t footprint = pool.footprint();
  const bool rotates = options.rotate && !c.warm && footprint > 0 && c.runs == Runs::recorded;
  while (rotates && pool.footprint() < options.cold_bytes && pool.left() >= footprint && calls.size() < kMostSets)
    calls.push_back(c.make(pool).call);
  warm = c.warm || pool.footprint() < options.cold_bytes;
  return calls;
}

// The calls, each with a wait behind it: that part of the time of one now. On a GPU the wait is a kernel of its own, whose launch comes on top.
std::vector<Call> slowed(std::vector<Call> calls, const Stream& stream, Runs runs, double part, double warm_up_s) {
  constexpr int kLooks = 9;
  Timer timed(stream, calls, runs);
  std::vector<double> looks;
  for (const auto begin = Clock::now(); looks.size() < kLooks || since(begin) < warm_up_s;)
    looks.push_back(timed.seconds(1) / double(timed.calls_per_unit()));
  const double wait_s = part * measure::median({looks.end() - kLooks, looks.end()});
  for (Call& call : calls)
    call = [=, &stream, plain = std::move(call)] {
      plain();
      if (runs != Runs::host) return spin(stream, (long long)(1e9 * wait_s));
      for (const auto begin = Clock::now(); since(begin) < wait_s;) {
      }
    };
  return calls;
}

void check_results(const Case& c, const Set& set, measure::BenchCase& about) {
  check(bool(set.check) != !c.no_check.empty(), "case '{}' must have either a check or a reason for none", c.name);
  about.no_check = c.no_check;
  if (!set.check) return;
  const Check result = set.check();
  about.error = result.error;
  about.bound = result.bound;
  about.check = result.against;
  check(result.error <= result.bound, "wrong results: the error against {} is {:.3g}, at most {:.3g} is right",
        result.against, result.error, result.bound);
}

measure::BenchSample sample(Timer& timed, std::int64_t units, const measure::GpuSensor* sensor) {
  constexpr int kAttempts = 3;
  measure::BenchSample s;
  for (int i = 0; i < kAttempts; ++i) {
    const double seconds = timed.seconds(units, [&] {
      if (sensor == nullptr || !timed.on_device_clock()) return;
      const measure::GpuReading r = sensor->read();
      s.sm_clock_mhz = r.sm_clock_mhz;
      s.power_w = r.power_w;
      s.temperature_c = r.temperature_c;
      s.throttle_reasons = double(r.throttle_reasons);
    });
    s.time_s = seconds / double(units * timed.calls_per_unit());
    if (!timed.gate_gave_up()) return s;
  }
  fail("{} launches were not queued within {} ms in {} attempts; is the host overloaded?", units, Gate::kMost.count(),
       kAttempts);
}

measure::BenchCase about_of(const Case& c) {
  const DeviceInfo device = device_info();
  measure::BenchCase about;
  about.name = c.name;
  about.component = c.component;
  about.dtype = c.dtype;
  about.on_device = c.runs != Runs::host;
  about.warm = c.warm;
  about.threads = c.threads > 0 ? c.threads : about.on_device && !device.is_gpu ? device.concurrency : 1;
  about.flops = c.work.flops;
  about.bytes = c.work.bytes;
  about.items = c.work.items;
  about.item_units = c.work.item_units;
  about.work_source = c.work.source;
  return about;
}

}  // namespace

MeasureOptions usual_options(bool quick) {
  const bool gpu = device_info().is_gpu;
  MeasureOptions o;
  o.sample_s = quick ? 0.002 : gpu ? 0.005 : 0.02;
  o.rotate = !quick;
  o.stop.budget_s = quick ? 0.25 : 2;
  o.limit_s = quick ? 0 : 3;
  o.stop.target_width = quick ? 0.05 : 0.01;
  o.warm_up_s = quick || !gpu ? 0 : 0.25;
  return o;
}

Measured measure_case(const Case& c, Pool& pool, const MeasureOptions& options, const measure::GpuSensor* sensor) {
  Measured m{about_of(c), {}};
  pool.reset();
  Set first = c.make(pool);
  if (m.about.on_device) m.about.memory_bytes = double(pool.footprint());
  check_results(c, first, m.about);
  pool.stream().fence();
  std::vector<Call> calls = calls_of(c, pool, std::move(first.call), options, m.about.warm);
  if (options.slow_down > 0)
    calls = slowed(std::move(calls), pool.stream(), c.runs, options.slow_down,
                   std::min(options.warm_up_s, WarmUp::kPart * options.stop.budget_s));
  Timer timed(pool.stream(), std::move(calls), c.runs);

  const auto begin = Clock::now();
  // Between stretches the device is idle; where the host queues as it goes, that must be little of the time.
  const double sample_s = (c.runs == Runs::queued ? 10 : 1) * options.sample_s;
  const bool limit = !c.limit.empty();
  StopOptions rules = options.stop;
  if (limit) rules.budget_s = std::max(rules.budget_s, std::min(options.limit_s, 4 * rules.budget_s));
  WarmUp warm_up(limit ? WarmUp::kPart * rules.budget_s : options.warm_up_s, rules.budget_s);
  double unit_s = timed.seconds(1);
  std::int64_t units = 1, warm_units = 1;
  for (bool done = false; !done; warm_units += units) {
    units = std::max<std::int64_t>(1, std::int64_t(std::ceil(sample_s / std::max(unit_s, 1e-9))));
    const auto stretch = Clock::now();
    unit_s = timed.seconds(units) / double(units);
    done = warm_up.done(unit_s, since(stretch));
  }
  m.about.warm_up_calls = warm_units * timed.calls_per_unit();
  m.about.warm_up_s = since(begin);
  m.about.calls_per_sample = units * timed.calls_per_unit();

  Stop stop(rules);
  std::vector<bool> disturbed;
  while (m.about.stop.empty()) {
    const Disturbance disturbance;
    m.samples.push_back(sample(timed, units, sensor));
    if (m.about.threads == 1 && !timed.on_device_clock())
      disturbed.push_back(disturbance.other_programs(m.samples.back().time_s * double(m.about.calls_per_sample)));
    reject(m.samples, disturbed);
    m.about.stop = stop.why(m.samples, since(begin));
  }
  return m;
}

measure::BenchCase not_measured(const Case& c, const std::string& why) {
  measure::BenchCase about = about_of(c);
  about.skipped = why;
  return about;
}

std::unique_ptr<measure::GpuSensor> open_sensor(std::string& why_not) {
  const DeviceInfo device = device_info();
  if (!device.is_gpu) {
    why_not = "'" + device.name + "' is not a GPU";
    return nullptr;
  }
  try {
    return std::make_unique<measure::GpuSensor>(measure::NvmlCalls::load(), device::pci_bus_id());
  } catch (const Error& e) {
    why_not = e.what();
    return nullptr;
  }
}

}  // namespace mylos::bench
