// libFuzzer's entry for bundle_targets.hpp.
#include "fuzz/bundle_targets.hpp"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mylos::fuzz::bundle(std::as_bytes(std::span(data, size)));
  return 0;
}
