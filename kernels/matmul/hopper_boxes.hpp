// Boxes of 64 rows and 64 columns of bf16 in shared memory, as the copy engine brings and takes them (128-byte swizzle), and the way of a tile's results out.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include "kernels/detail/hopper.hpp"

namespace mylos::kernels::hopper {

inline constexpr int kBox = 64, kBoxBytes = kBox * kBox * 2;
inline constexpr int kBoxes = 2, kOutboxBytes = kBoxes * kBoxBytes;  // of a warpgroup

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

// A warpgroup puts a box of results into shared memory, from where the copy engine takes it, and goes on: one by one stores would keep its warps busy with addresses for a
// twentieth of a tile's time.
class Outbox {
 public:
  __device__ Outbox(const Warpgroup& group, std::uint32_t boxes) : group_(group), boxes_(boxes) {}

  // Columns [x, x + 64) of rows [y, y + 64). words(g, w) gives those of this thread in columns [16 g, 16 g + 16), as row_of_matrix() wants them. `number` counts the
  // boxes of a tile, of which there is an even number.
  template <class GetWords>
  __device__ void put(int number, const CUtensorMap& map, int x, int y, const GetWords& words) const {
    const std::uint32_t box = boxes_ + number % kBoxes * kBoxBytes;
    if (group_.leads()) wait_for_stores<kBoxes - 1>();
    group_.synchronize();
#pragma unroll
    for (int g = 0; g < kBox / 16; ++g) {
      std::uint32_t w[4];
      words(g, w);
      store_matrices(row_of_matrix(box, g), w);
    }
    fence_for_stores();
    group_.synchronize();
    if (group_.leads()) {
      store_box(&map, x, y, box);
      end_stores();
    }
  }
  // Before shared memory goes away.
  __device__ void close() const {
    if (group_.leads()) wait_for_stores<0>();
  }

 private:
  Warpgroup group_;
  std::uint32_t boxes_;
};

#endif

}  // namespace mylos::kernels::hopper
#endif
