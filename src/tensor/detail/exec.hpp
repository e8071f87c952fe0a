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

}  // namespace mylos
