// The GPU while a run uses it: a thread samples power, clocks, temperature and energy into /telemetry/gpu of a bundle.
//
//   Telemetry telemetry;                        // finds the GPU of this process; a Runtime must be alive
//   telemetry.describe(hardware);               // power limit, highest clocks, versions
//   bundle.set(hardware); telemetry.attach(bundle);
//   telemetry.start(begin);                     // the moment that times of steps count from
//
// Each publish of the bundle takes over the samples so far and derives energy per token, power, SM clock and the share of samples held
// by the power cap over the steady window of /samples/steps (telemetry_summary.hpp). Where there is no GPU or no NVML, the attribute
// `status` of /telemetry says why. Between samples the thread sleeps at least 1,000 times the processor time that one takes (1 s at
// most), so it uses less than 0.1 % of a core; it never waits for the device.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "measure/bundle.hpp"
#include "measure/nvml.hpp"

namespace mylos::measure {

class Telemetry {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Telemetry(double interval_s = 0.05);
  Telemetry(const NvmlCalls& calls, const std::string& bus_id, double interval_s);
  ~Telemetry();  // stops sampling
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  bool available() const { return sensor_ != nullptr; }
  const std::string& why_not() const { return why_not_; }

  void describe(Hardware& hardware) const;
  void attach(Bundle& bundle);  // must outlive the bundle's last publish
  void start(Clock::time_point begin);
  void stop();

 private:
  struct Sample {
    double time_s;
    GpuReading reading;
  };
  void open(const NvmlCalls& calls, const std::string& bus_id);
  void work(Clock::time_point begin);
  void hand_over(Bundle& bundle);

  double interval_s_;
  std::string why_not_;
  std::unique_ptr<GpuSensor> sensor_;
  int table_ = -1;
  std::thread thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
  std::vector<Sample> fresh_;
  double busy_s_ = 0, watched_s_ = 0;  // processor time of the thread, time since it started
};

}  // namespace mylos::measure
