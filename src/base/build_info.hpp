// What this program was built from and with: filled in by the build, kept in the provenance of every bundle.
//
// commit is `git describe --always --dirty` of the source tree at the last compile ("unknown" outside git); the other values
// are those of meson setup. Link build_info_dep: it is a library of its own, so that a new commit relinks only its users.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mylos {

struct BuildInfo {
  std::string version;                                         // of mylos
  std::string commit;                                          // 40 hex digits, or "unknown"
  bool dirty = false;                                          // the source tree differed from that commit
  std::string compiler;                                        // "gcc 12.2.0"
  std::string compile_flags;                                   // beyond those that follow from build_type
  std::string build_type;                                      // Meson's buildtype
  std::string device;                                          // "openmp", "cuda", "serial"
  std::string kokkos_way;                                      // "installed", "debian", "wrap"
  std::vector<std::pair<std::string, std::string>> libraries;  // name, version
  std::vector<std::pair<std::string, std::string>> options;    // option of meson_options.txt, what it came to
};

const BuildInfo& build_info();

}  // namespace mylos
