#include "measure/telemetry.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "measure/telemetry_summary.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::measure {
namespace {

double processor_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

void set_if_known(checkpoint::Attributes& more, const char* name, double value) {
  if (std::isfinite(value)) more[name] = value;
}

}  // namespace

Telemetry::Telemetry(double interval_s) : interval_s_(interval_s) {
  const DeviceInfo info = device_info();
  if (!info.is_gpu) {
    why_not_ = fmt::format("'{}' is not a GPU", info.name);
    return;
  }
  try {
    open(NvmlCalls::load(), device::pci_bus_id());
  } catch (const Error& e) {
    why_not_ = e.what();
  }
}

Telemetry::Telemetry(const NvmlCalls& calls, const std::string& bus_id, double interval_s) : interval_s_(interval_s) {
  try {
    open(calls, bus_id);
  } catch (const Error& e) {
    why_not_ = e.what();
  }
}

Telemetry::~Telemetry() { stop(); }

void Telemetry::open(const NvmlCalls& calls, const std::string& bus_id) {
  check(interval_s_ > 0 && interval_s_ <= 60, "a sample every {} s; give more than 0 and at most 60 s", interval_s_);
  sensor_ = std::make_unique<GpuSensor>(calls, bus_id);
}

void Telemetry::describe(Hardware& hardware) const {
  if (!available()) return;
  const GpuFacts facts = sensor_->facts();
  set_if_known(hardware.more, "power_limit_w", facts.power_limit_w);
  set_if_known(hardware.more, "max_sm_clock_mhz", facts.max_sm_clock_mhz);
  set_if_known(hardware.more, "max_memory_clock_mhz", facts.max_memory_clock_mhz);
  for (const auto& [name, text] : {std::pair<const char*, const std::string&>{"uuid", facts.uuid},
                                   {"driver_version", facts.driver},
                                   {"nvml_version", facts.nvml}})
    if (!text.empty()) hardware.more[name] = text;
}

void Telemetry::attach(Bundle& bundle) {
  bundle.set_attribute("/telemetry", "status", available() ? std::string("sampled") : "not available: " + why_not_);
  if (!available()) return;
  table_ = bundle.add_table("telemetry", "gpu",
                            {{"time", "s", "since the begin of the run"},
                             {"power", "W", "power as the driver averages it"},
                             {"sm_clock", "MHz", "clock of the streaming multiprocessors"},
                             {"memory_clock", "MHz", "clock of the device memory"},
                             {"temperature", "degC", "temperature of the GPU"},
                             {"throttle_reasons", "1", "bit mask: why clocks are lower than they could be (NVML)"},
                             {"energy", "J", "energy since the driver was loaded"},
                             {"memory_used", "byte", "device memory in use, by all processes"}});
  bundle.before_publish([this](Bundle& b) { hand_over(b); });
}

void Telemetry::start(Clock::time_point begin) {
  if (!available() || thread_.joinable()) return;
  thread_ = std::thread([this, begin] { work(begin); });
}

void Telemetry::stop() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Telemetry::work(Clock::time_point begin) {
  const auto started = Clock::now();
  const double busy_before = processor_s();
  std::unique_lock lock(mutex_);
  for (std::int64_t samples = 1; !stop_; ++samples) {
    lock.unlock();
    const auto now = Clock::now();
    const GpuReading reading = sensor_->read();
    lock.lock();
    fresh_.push_back({std::chrono::duration<double>(now - begin).count(), reading});
    busy_s_ = processor_s() - busy_before;
    watched_s_ = std::chrono::duration<double>(Clock::now() - started).count();
    const double wait_s = std::max(interval_s_, std::min(1.0, 1e3 * busy_s_ / double(samples)));
    wake_.wait_until(lock, now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_s)),
                     [this] { return stop_; });
  }
}

void Telemetry::hand_over(Bundle& bundle) {
  std::vector<Sample> samples;
  double busy_s = 0, watched_s = 0;
  {
    const std::scoped_lock lock(mutex_);
    samples.swap(fresh_);
    busy_s = busy_s_;
    watched_s = watched_s_;
  }
  for (const auto& [time, r] : samples)
    bundle.append(table_, {time, r.power_w, r.sm_clock_mhz, r.memory_clock_mhz, r.temperature_c,
                           double(r.throttle_reasons), r.energy_j, r.memory_used_bytes});
  bundle.set_attribute("/telemetry", "interval_s", interval_s_);
  if (watched_s > 0) bundle.set_attribute("/telemetry", "sampling_share_of_a_core", busy_s / watched_s);
  summarize_telemetry(bundle, table_);
}

}  // namespace mylos::measure
