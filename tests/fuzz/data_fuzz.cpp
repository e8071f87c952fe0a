// libFuzzer's entry; MYLOS_FUZZ_TARGET is one of the functions of data_targets.hpp.
#include "fuzz/data_targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mylos::fuzz::MYLOS_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
