#include "base/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace mylos {
namespace {

// The number in a file that holds one; -1 when there is none ("max").
std::int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = -1;
  return file >> value ? value : -1;
}

std::int64_t mem_available() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kilobytes = 0;
  std::string unit;
  while (file >> name >> kilobytes) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return -1;
}

// The path of this process in the unified hierarchy ("0::/a/b").
std::string control_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  return "/";
}

}  // namespace

std::int64_t available_host_memory() {
  std::int64_t least = mem_available();
  // Every group above has a say.
  for (std::string group = control_group();; group = group.substr(0, group.find_last_of('/'))) {
    const std::string folder = "/sys/fs/cgroup" + (group == "/" ? "" : group);
    const std::int64_t limit = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
    if (limit >= 0 && used >= 0) {
      const std::int64_t left = std::max<std::int64_t>(0, limit - used);
      least = least < 0 ? left : std::min(least, left);
    }
    if (group.empty() || group == "/") break;
  }
  return least;
}

}  // namespace mylos
