#include "measure/nvml.hpp"

#include <dlfcn.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"

#if defined(MYLOS_NVML_HEADER)
#include <nvml.h>
#endif

namespace mylos::measure {

#if defined(MYLOS_NVML_HEADER)
static_assert(sizeof(nvmlReturn_t) == sizeof(int) && NVML_SUCCESS == 0);
static_assert(sizeof(nvmlDevice_t) == sizeof(void*) && sizeof(nvmlClockType_t) == sizeof(unsigned));
static_assert(NVML_CLOCK_SM == NvmlCalls::kSmClock && NVML_CLOCK_MEM == NvmlCalls::kMemoryClock);
static_assert(NVML_TEMPERATURE_GPU == NvmlCalls::kGpuSensor);
static_assert(sizeof(nvmlMemory_t) == sizeof(NvmlCalls::Memory) &&
              offsetof(nvmlMemory_t, used) == offsetof(NvmlCalls::Memory, used));
static_assert(nvmlClocksEventReasonSwPowerCap == kReasonPowerCap &&
              nvmlClocksThrottleReasonHwSlowdown == kReasonHwSlowdown &&
              nvmlClocksEventReasonSwThermalSlowdown == kReasonSwThermal &&
              nvmlClocksThrottleReasonHwThermalSlowdown == kReasonHwThermal &&
              nvmlClocksThrottleReasonHwPowerBrakeSlowdown == kReasonPowerBrake);
#endif

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::string text_of(const NvmlCalls& calls, int error) {
  return calls.error_text != nullptr ? calls.error_text(error) : fmt::format("NVML error {}", error);
}

// One number of the device, times `unit`.
template <class Number, class Call, class... More>
double number(Call call, void* device, double unit, More... more) {
  Number value = 0;
  return call != nullptr && call(device, more..., &value) == 0 ? double(value) * unit : kUnknown;
}

std::string version(int (*call)(char*, unsigned)) {
  char text[128] = "";
  return call != nullptr && call(text, sizeof text) == 0 ? text : "";
}

}  // namespace

NvmlCalls NvmlCalls::load() {
  // Never closed: the driver's libraries do not expect it.
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "NVML cannot be opened: {}", dlerror());
  NvmlCalls c;
  const bool whole = find(library, "nvmlInit_v2", c.init) && find(library, "nvmlShutdown", c.shutdown) &&
                     find(library, "nvmlDeviceGetHandleByPciBusId_v2", c.device_by_bus_id);
  check(whole,
        "this driver's NVML is too old: nvmlInit_v2, nvmlShutdown or nvmlDeviceGetHandleByPciBusId_v2 is missing");
  find(library, "nvmlErrorString", c.error_text);
  find(library, "nvmlSystemGetDriverVersion", c.driver_version);
  find(library, "nvmlSystemGetNVMLVersion", c.nvml_version);
  find(library, "nvmlDeviceGetUUID", c.uuid);
  find(library, "nvmlDeviceGetPowerUsage", c.power);
  find(library, "nvmlDeviceGetEnforcedPowerLimit", c.power_limit);
  find(library, "nvmlDeviceGetClockInfo", c.clock);
  find(library, "nvmlDeviceGetMaxClockInfo", c.max_clock);
  find(library, "nvmlDeviceGetTemperature", c.temperature);
  // Renamed in NVML 12.2.
  if (!find(library, "nvmlDeviceGetCurrentClocksEventReasons", c.clock_reasons))
    find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", c.clock_reasons);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", c.energy);
  find(library, "nvmlDeviceGetMemoryInfo", c.memory);
  return c;
}

GpuSensor::GpuSensor(const NvmlCalls& calls, const std::string& bus_id) : calls_(calls) {
  int error = calls_.init();
  check(error == 0, "NVML does not start: {}", text_of(calls_, error));
  error = calls_.device_by_bus_id(bus_id.c_str(), &device_);
  if (error == 0) return;
  const std::string text = text_of(calls_, error);
  calls_.shutdown();
  fail("NVML does not know the device '{}': {}", bus_id, text);
}

GpuSensor::~GpuSensor() { calls_.shutdown(); }

GpuFacts GpuSensor::facts() const {
  char uuid[128] = "";
  if (calls_.uuid == nullptr || calls_.uuid(device_, uuid, sizeof uuid) != 0) uuid[0] = '\0';
  return {.uuid = uuid,
          .driver = version(calls_.driver_version),
          .nvml = version(calls_.nvml_version),
          .power_limit_w = number<unsigned>(calls_.power_limit, device_, 1e-3),
          .max_sm_clock_mhz = number<unsigned>(calls_.max_clock, device_, 1, NvmlCalls::kSmClock),
          .max_memory_clock_mhz = number<unsigned>(calls_.max_clock, device_, 1, NvmlCalls::kMemoryClock)};
}

GpuReading GpuSensor::read() const {
  unsigned long long reasons = 0;
  if (calls_.clock_reasons == nullptr || calls_.clock_reasons(device_, &reasons) != 0) reasons = 0;
  NvmlCalls::Memory memory{};
  const bool has_memory = calls_.memory != nullptr && calls_.memory(device_, &memory) == 0;
  return {.power_w = number<unsigned>(calls_.power, device_, 1e-3),
          .sm_clock_mhz = number<unsigned>(calls_.clock, device_, 1, NvmlCalls::kSmClock),
          .memory_clock_mhz = number<unsigned>(calls_.clock, device_, 1, NvmlCalls::kMemoryClock),
          .temperature_c = number<unsigned>(calls_.temperature, device_, 1, NvmlCalls::kGpuSensor),
          .energy_j = number<unsigned long long>(calls_.energy, device_, 1e-3),
          .memory_used_bytes = has_memory ? double(memory.used) : kUnknown,
          .throttle_reasons = reasons};
}

}  // namespace mylos::measure
