// Boxes of 64 rows and 64 columns of bf16 in shared memory, as the copy engine brings and takes them (128-byte swizzle).
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include "kernels/detail/hopper.hpp"
#include "kernels/detail/hopper_products.hpp"

namespace mylos::kernels::hopper {

inline constexpr int kBox = 64, kBoxBytes = kBox * kBox * 2;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// One of the two that multiply.
class Warpgroup {
 public:
  __device__ explicit Warpgroup(int half) : half_(half) {}
  __device__ int half() const { return half_; }
  __device__ bool leads() const { return threadIdx.x % 128 == 0; }
  __device__ void synchronize() const { asm volatile("barrier.cta.sync %0, 128;" ::"r"(2 + half_) : "memory"); }

 private:
  int half_;
};

// Where this thread's row of store_matrices() and load_matrices() lies in a box: of columns [16 g, 16 g + 16) and the 16 rows of its warp, which lie as sums do: words are
// those of rows r and r + 8 of columns c, then of c + 8.
__device__ inline std::uint32_t row_of_matrix(std::uint32_t box, int g) {
  const int row = int(threadIdx.x) / 32 % 4 * 16 + int(threadIdx.x) % 16;
  const std::uint32_t piece = std::uint32_t(2 * g + int(threadIdx.x) % 32 / 16);
  return box + std::uint32_t(row) * 128 +
         ((piece ^ (threadIdx.x % 8)) << 4);  // a row's pieces of 16 bytes change places by the row
}

#endif

}  // namespace mylos::kernels::hopper
#endif
