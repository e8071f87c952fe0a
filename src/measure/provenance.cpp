#include "measure/provenance.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/build_info.hpp"
#include "base/error.hpp"
#include "measure/source_diff_text.hpp"

extern char** environ;

namespace mylos::measure {

namespace {

// Settings that change results or speed. No name here may carry a secret: SLURM's and NCCL's are listed one by one.
constexpr std::string_view kPrefixes[] = {"OMP_", "OPENBLAS_", "KOKKOS_", "MYLOS_", "GOMP_", "DNNL_", "ONEDNN_"};
constexpr std::string_view kNames[] = {"CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
                                       "CUDA_DEVICE_ORDER",    "CUDA_DEVICE_MAX_CONNECTIONS",
                                       "CUDA_MODULE_LOADING",  "CUBLAS_WORKSPACE_CONFIG",
                                       "NVIDIA_TF32_OVERRIDE", "NCCL_ALGO",
                                       "NCCL_PROTO",           "NCCL_IB_DISABLE",
                                       "NCCL_P2P_DISABLE",     "NCCL_NVLS_ENABLE",
                                       "NCCL_SOCKET_IFNAME",   "NCCL_DEBUG",
                                       "SLURM_JOB_ID",         "SLURM_NNODES",
                                       "SLURM_NTASKS",         "SLURM_JOB_PARTITION",
                                       "MALLOC_ARENA_MAX",     "HDF5_USE_FILE_LOCKING"};

bool allowed(std::string_view name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.substr(0, prefix.size()) == prefix) return true;
  for (const std::string_view known : kNames)
    if (name == known) return true;
  return false;
}

// A name that groups runs: it may become part of a file's name.
std::string call_name() {
  const char* const value = std::getenv("MYLOS_CALL");
  const std::string call = value != nullptr ? value : "";
  constexpr std::size_t kMost = 64;
  const bool plain = std::all_of(call.begin(), call.end(), [](unsigned char c) {
    return c < 128 && (std::isalnum(c) || c == '.' || c == '_' || c == '-');
  });
  check(plain && call.size() <= kMost, "MYLOS_CALL is '{}'; it may have up to {} letters, digits, '.', '_' and '-'",
        call, kMost);
  return call;
}

}  // namespace

Provenance collect_provenance(const std::vector<std::string>& command_line) {
  const BuildInfo& build = build_info();
  Provenance p;
  p.commit = build.commit;
  p.dirty = build.dirty;
  p.diff = build.dirty ? source_diff() : "";
  p.program_version = build.version;
  p.compiler = build.compiler;
  p.build_options = "buildtype=" + build.build_type + " device=" + build.device + " kokkos=" + build.kokkos_way +
                    " flags=" + build.compile_flags;
  for (const auto& [name, value] : build.options) p.build_options += "; " + name + ": " + value;
  for (const auto& [name, version] : build.libraries) p.libraries[name] = version;
  p.libraries["HDF5"] = checkpoint::hdf5_version();
  p.command_line = command_line;
  p.call = call_name();
  for (char** at = environ; at && *at; ++at) {
    const std::string_view entry(*at);
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || !allowed(entry.substr(0, equals))) continue;
    p.environment[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  utsname system{};
  if (uname(&system) == 0) {
    p.host = system.nodename;
    p.operating_system = std::string(system.sysname) + " " + system.release + " " + system.machine;
  }
  std::error_code ignored;
  p.working_directory = std::filesystem::current_path(ignored).string();
  return p;
}

}  // namespace mylos::measure
