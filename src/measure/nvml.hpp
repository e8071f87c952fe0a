// What the driver says about one GPU: power, clocks, temperature, energy, through NVML.
//
// The library belongs to the driver, so it is opened at run time and no build links it. Its calls are a table of functions, which a test
// fills with its own. A value that a driver does not give is NaN (0 for the reasons). No call waits for work on the device.
#pragma once

#include <cstdint>
#include <string>

namespace mylos::measure {

// nvmlReturn_t is int, nvmlDevice_t is void* and enumerations are unsigned here; nvml.cpp holds them against nvml.h. A call that the
// driver's library does not have is null.
struct NvmlCalls {
  struct Memory {
    unsigned long long total, free, used;
  };
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*nvml_version)(char*, unsigned) = nullptr;
  int (*device_by_bus_id)(const char*, void**) = nullptr;
  int (*uuid)(void*, char*, unsigned) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;                     // mW
  int (*power_limit)(void*, unsigned*) = nullptr;               // mW
  int (*clock)(void*, unsigned kind, unsigned*) = nullptr;      // MHz
  int (*max_clock)(void*, unsigned kind, unsigned*) = nullptr;  // MHz
  int (*temperature)(void*, unsigned sensor, unsigned*) = nullptr;
  int (*clock_reasons)(void*, unsigned long long*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;  // mJ since the driver was loaded
  int (*memory)(void*, Memory*) = nullptr;

  static constexpr unsigned kSmClock = 1, kMemoryClock = 2, kGpuSensor = 0;
  static NvmlCalls load();  // throws Error when the driver's library is not there
};

// Bits of clock_reasons: why clocks are lower than they could be.
inline constexpr std::uint64_t kReasonPowerCap = 0x4;
inline constexpr std::uint64_t kReasonHwSlowdown = 0x8;
inline constexpr std::uint64_t kReasonSwThermal = 0x20;
inline constexpr std::uint64_t kReasonHwThermal = 0x40;
inline constexpr std::uint64_t kReasonPowerBrake = 0x80;

struct GpuFacts {
  std::string uuid, driver, nvml;
  double power_limit_w, max_sm_clock_mhz, max_memory_clock_mhz;
};

struct GpuReading {
  double power_w;  // as the driver averages it: over a second on Hopper
  double sm_clock_mhz, memory_clock_mhz, temperature_c, energy_j, memory_used_bytes;
  std::uint64_t throttle_reasons;
};

class GpuSensor {
 public:
  // bus_id as CUDA names the device of this process ("0000:1b:00.0"). Throws Error that names what NVML said.
  GpuSensor(const NvmlCalls& calls, const std::string& bus_id);
  ~GpuSensor();
  GpuSensor(const GpuSensor&) = delete;
  GpuSensor& operator=(const GpuSensor&) = delete;
  GpuFacts facts() const;
  GpuReading read() const;

 private:
  NvmlCalls calls_;
  void* device_ = nullptr;
};

}  // namespace mylos::measure
