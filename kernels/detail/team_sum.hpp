// A sum over the threads of a GPU team with one barrier: each warp adds up by shuffles, then every thread adds the warps'
// sums in their order. The same bits in every thread and every run.
//
//   TeamSum<256> sum(scratch);          // TeamSum<256>::kBytes of scratch memory, aligned to 16; <256, double> for doubles
//   const float total = sum(member, s); // as often as wanted: two calls in a row use different halves of the scratch
//
// A team of one warp has no barrier at all.
#pragma once

#include <Kokkos_Core.hpp>

namespace mylos::kernels::detail {

// The sum over a warp, in all its threads.
template <class T>
KOKKOS_FUNCTION T warp_sum([[maybe_unused]] T s) {
  KOKKOS_IF_ON_DEVICE((for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(0xffffffffu, s, step); return s;))
  KOKKOS_IF_ON_HOST((return s;))
}

template <int kThreads, class T = float>
class TeamSum {
 public:
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  static constexpr int kWarps = kThreads / 32, kBytes = 2 * kWarps * int(sizeof(T));

  KOKKOS_FUNCTION explicit TeamSum(void* scratch) : sums_(static_cast<T*>(scratch)) {}

  template <class Member>
  KOKKOS_FUNCTION T operator()(const Member& member, T s) {
    s = warp_sum(s);
    if constexpr (kWarps > 1) {
      const int rank = member.team_rank();
      T* const now = sums_ + turn_ * kWarps;
      if (rank % 32 == 0) now[rank / 32] = s;
      member.team_barrier();
      s = now[0];
      for (int warp = 1; warp < kWarps; ++warp) s += now[warp];
      turn_ = 1 - turn_;
    }
    return s;
  }

 private:
  T* sums_;
  int turn_ = 0;
};

}  // namespace mylos::kernels::detail
