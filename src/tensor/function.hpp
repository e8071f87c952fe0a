// MYLOS_FUNCTION marks a function that runs on the host and on the device, in files that must not see Kokkos.
#pragma once

#if defined(__CUDACC__)
#define MYLOS_FUNCTION __host__ __device__ inline __attribute__((always_inline))
#else
#define MYLOS_FUNCTION inline __attribute__((always_inline))
#endif
