#include <sched.h>
#include <sys/sysinfo.h>

#include <fstream>
#include <string>

#include "measure/provenance.hpp"
#include "tensor/runtime.hpp"

namespace mylos::measure {

namespace {

// "model name : X" of /proc/cpuinfo; ARM kernels have no such line.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 10, "model name") != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..."
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  return std::getline(file, line) ? line : "";
}

}  // namespace

Hardware collect_hardware() {
  const DeviceInfo device = device_info();
  Hardware h;
  h.device_name = device.name;
  h.backend = device.backend;
  h.is_gpu = device.is_gpu;
  h.device_memory_bytes = device.memory_bytes;
  h.threads = device.concurrency;
  h.cpu_name = cpu_name();
  cpu_set_t cores;
  h.cpu_cores = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : get_nprocs();
  struct sysinfo system {};
  if (sysinfo(&system) == 0) h.host_memory_bytes = std::int64_t(system.totalram) * std::int64_t(system.mem_unit);
  if (device.is_gpu) h.driver = driver_version();
  return h;
}

}  // namespace mylos::measure
