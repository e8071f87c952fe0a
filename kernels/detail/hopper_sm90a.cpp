#include "kernels/detail/hopper.hpp"

namespace mylos::kernels::hopper {

// Code for another architecture, or a card of another, has no such instructions.
bool is_hopper() {
#if defined(MYLOS_SM90A)
  static const bool is = [] {
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
           minor == 0;
  }();
  return is;
#else
  return false;
#endif
}

}  // namespace mylos::kernels::hopper
