#include "base/error.hpp"
#include "kernels/attention/host_parallel.hpp"
#include "tensor/detail/exec.hpp"

namespace mylos::kernels::attention {

namespace {

// A template, so that a GPU build never compiles the branch for the CPU.
template <class E>
void launch(const E& exec, const char* label, std::int64_t count, const void* context, HostTask task) {
  if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename E::memory_space>::accessible) {
    const Kokkos::Experimental::UniqueToken<E, Kokkos::Experimental::UniqueTokenScope::Global> token;
    using Policy = Kokkos::RangePolicy<E, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(label, Policy(exec, 0, count, Kokkos::ChunkSize(1)), [=](std::int64_t i) {
      const int thread = token.acquire();
      task(context, i, thread);
      token.release(thread);
    });
  } else {
    fail_plain("the CPU provider of attention cannot work on a GPU's memory; use the portable provider");
  }
}

}  // namespace

void host_parallel_erased(const Stream& stream, const char* label, std::int64_t count, const void* context,
                          HostTask task) {
  launch(exec_of(stream), label, count, context, task);
}

}  // namespace mylos::kernels::attention
