#include "base/build_info.hpp"

#include <string_view>

#include "build_commit.hpp"
#include "build_values.hpp"

namespace mylos {

const BuildInfo& build_info() {
  static const BuildInfo info = [] {
    constexpr std::string_view kDirty = "+dirty";
    BuildInfo b;
    std::string_view commit = MYLOS_COMMIT;
    if (commit.ends_with(kDirty)) {
      b.dirty = true;
      commit.remove_suffix(kDirty.size());
    }
    b.commit = commit;
    b.version = MYLOS_VERSION;
    b.compiler = MYLOS_COMPILER;
    b.compile_flags = MYLOS_COMPILE_FLAGS;
    b.build_type = MYLOS_BUILD_TYPE;
    b.device = MYLOS_DEVICE;
    b.kokkos_way = MYLOS_KOKKOS_WAY;
    b.libraries = {MYLOS_LIBRARIES};
    b.options = {MYLOS_OPTIONS};
    return b;
  }();
  return info;
}

}  // namespace mylos
