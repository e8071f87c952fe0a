#include <chrono>

#include "benchmarks/harness/spin.hpp"
#include "tensor/detail/exec.hpp"

namespace mylos::bench {
namespace {

KOKKOS_INLINE_FUNCTION long long now_ns() {
#if defined(__CUDA_ARCH__)
  long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
#else
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
#endif
}

struct Nothing {
  KOKKOS_INLINE_FUNCTION void operator()(int) const {}
};

struct Spin {
  long long nanoseconds;
  KOKKOS_INLINE_FUNCTION void operator()(int) const {
    const long long end = now_ns() + nanoseconds;
    while (now_ns() < end) {
    }
  }
};

using Range = Kokkos::RangePolicy<Exec, Kokkos::IndexType<int>>;

}  // namespace

void null_kernel(const Stream& stream) {
  Kokkos::parallel_for("mylos::harness::null", Range(exec_of(stream), 0, 1), Nothing{});
}
void spin(const Stream& stream, long long nanoseconds) {
  Kokkos::parallel_for("mylos::harness::spin", Range(exec_of(stream), 0, 1), Spin{nanoseconds});
}

}  // namespace mylos::bench
