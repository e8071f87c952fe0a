// Runs task(i, thread) for 0 <= i < count on the CPU's Kokkos threads, one index at a time in rising order to whichever
// thread is free, so the longest tasks go first. `thread` is below device_info().concurrency and picks the task's own
// workspace; results must not depend on it. For files that the host compiler builds.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels::attention {

using HostTask = void (*)(const void* context, std::int64_t index, int thread);
void host_parallel_erased(const Stream& stream, const char* label, std::int64_t count, const void* context,
                          HostTask task);

template <class F>
void host_parallel(const Stream& stream, const char* label, std::int64_t count, const F& f) {
  host_parallel_erased(stream, label, count, &f, [](const void* context, std::int64_t i, int thread) {
    (*static_cast<const F*>(context))(i, thread);
  });
}

}  // namespace mylos::kernels::attention
