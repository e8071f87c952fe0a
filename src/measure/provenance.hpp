// Where a result comes from: the sources and tools of the build, the run's command, environment and host.
//
// Commit, dirty flag and diff are those of the moment the program was built (a header made by build_stamp.py), not of
// the moment it ran. Only environment variables on an allow-list are kept: none of them holds a secret.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/store.hpp"

namespace mylos::measure {

struct Provenance {
  std::string commit;  // "unknown" when built outside a git checkout
  bool dirty = false;
  std::string diff;  // against commit; cut at 256 kB, and says so
  std::string program_version;
  std::string compiler, build_options;
  std::map<std::string, std::string> libraries;  // name -> version
  std::vector<std::string> command_line;
  std::map<std::string, std::string> environment;  // allow-listed
  std::string host, operating_system, working_directory, user_note;
  std::string call;  // what MYLOS_CALL says: the same for all that ran in one turn on one machine
};
Provenance collect_provenance(const std::vector<std::string>& command_line);

struct Hardware {
  std::string device_name;  // "NVIDIA H200" or the CPU model
  std::string backend;      // "OpenMP", "Cuda", "Serial"
  bool is_gpu = false;
  std::int64_t device_memory_bytes = 0;
  std::int64_t devices = 1;  // that take part in the run
  int threads = 0;           // CPU threads of the process
  std::string cpu_name;
  std::int64_t cpu_cores = 0;  // that the process may use
  std::int64_t host_memory_bytes = 0;
  std::string driver;           // GPU driver, "" when there is none
  checkpoint::Attributes more;  // clocks, power cap, ... when known
};
// From tensor/runtime's device_info() (the Runtime must be alive) and /proc.
Hardware collect_hardware();

}  // namespace mylos::measure
