// What a Stream is underneath: a Kokkos execution space instance. Only kernels/ and the files that own streams include this.
#pragma once

#include <Kokkos_Core.hpp>

#include "tensor/runtime.hpp"

namespace mylos {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
inline constexpr bool kOnGpu = !Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;

struct Stream::Impl {
  Exec exec;
};

inline const Exec& exec_of(const Stream& stream) { return stream.impl().exec; }

// For functors of 512 bytes to 4 KiB. Kokkos would hand them to a GPU through a buffer of its own, and a recorded graph
// (tensor/async.hpp) would read that buffer again when it holds another functor; with this policy they are kernel
// arguments.
template <class Policy>
auto as_arguments(const Policy& policy) {
  return Kokkos::Experimental::require(policy, Kokkos::Experimental::WorkItemProperty::HintLightWeight);
}

}  // namespace mylos
