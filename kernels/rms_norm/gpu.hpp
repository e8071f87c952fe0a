// What the GPU launches of this folder share.
#pragma once

#include <cstdint>

namespace mylos::kernels::device {

// Persistent teams are as many as an H200 runs at a time, so that all end together.
inline constexpr std::int64_t kGpuMultiprocessors = 132;

}  // namespace mylos::kernels::device
