// What the fuzzer of bundles runs, and the tests that replay its corpus.
#pragma once

#include <cstddef>
#include <span>

namespace mylos::fuzz {

// Reads everything in an HDF5 file of these bytes; Errors are expected, nothing else is. In this process, without the
// child that protects a user, so that a fault in our own code is seen.
void bundle(std::span<const std::byte> input);

}  // namespace mylos::fuzz
