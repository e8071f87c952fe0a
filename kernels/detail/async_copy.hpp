// Copies from memory to a team's scratch memory that a GPU makes behind the thread's back, past registers and the L1 cache
// (cp.async of sm_80): rows that come next are under way without a register for any of them.
//
//   start_copy(scratch, memory);   // 16 bytes, both aligned to 16; several make a group
//   end_group();
//   wait_for_groups<2>();          // until all groups but the last 2 have arrived
//   ask_for(memory, bytes);        // to the L2 cache, ahead of a copy: a multiple of 16 bytes (sm_90; before it, nothing)
//
// A thread waits for its own copies. What others read needs a barrier behind the wait; scratch memory that a thread has
// read can be copied over by the same thread without one.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

namespace mylos::kernels::detail {

KOKKOS_FUNCTION inline void start_copy([[maybe_unused]] void* scratch, [[maybe_unused]] const void* memory) {
  KOKKOS_IF_ON_DEVICE(
      (asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(std::uint32_t(__cvta_generic_to_shared(scratch))),
                    "l"(memory)
                    : "memory");))
  KOKKOS_IF_ON_HOST((std::memcpy(scratch, memory, 16);))
}
KOKKOS_FUNCTION inline void end_group() { KOKKOS_IF_ON_DEVICE((asm volatile("cp.async.commit_group;" ::: "memory");)) }
template <int kLater>
KOKKOS_FUNCTION void wait_for_groups() {
  KOKKOS_IF_ON_DEVICE((asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");))
}
KOKKOS_FUNCTION inline void ask_for([[maybe_unused]] const void* memory, [[maybe_unused]] std::uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(memory)), "r"(bytes)
               : "memory");
#endif
}

}  // namespace mylos::kernels::detail
