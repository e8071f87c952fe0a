// Instructions of Hopper that only symmetric products use, beside kernels/detail/hopper*.hpp. Source: PTX ISA 8.0 and later, wgmma, stmatrix.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include "kernels/matmul/hopper_boxes.hpp"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace mylos::kernels::hopper {

#define MYLOS_SUMS8(i)                                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

// D += A · B of 64 rows and 192 columns, both operands in shared memory and along or across alike.
template <bool kAcross>
__device__ void multiply_add(float (&d)[96], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, %96, %97, 1, 1, 1, %98, %98;"
      : MYLOS_SUMS8(0), MYLOS_SUMS8(8), MYLOS_SUMS8(16), MYLOS_SUMS8(24), MYLOS_SUMS8(32), MYLOS_SUMS8(40),
        MYLOS_SUMS8(48), MYLOS_SUMS8(56), MYLOS_SUMS8(64), MYLOS_SUMS8(72), MYLOS_SUMS8(80), MYLOS_SUMS8(88)
      : "l"(a), "l"(b), "n"(int(kAcross)));
}
#undef MYLOS_SUMS8

// As row_of_matrix() and store_matrices(), of the box's mirror image: the sums of columns [16 g, 16 g + 16) are rows there.
__device__ inline std::uint32_t mirrored_row_of_matrix(std::uint32_t box, int g) {
  const int lane = int(threadIdx.x) % 32, row = 16 * g + lane / 16 * 8 + lane % 8;
  const std::uint32_t piece = std::uint32_t(int(threadIdx.x) / 32 % 4 * 2 + lane / 8 % 2);
  return box + std::uint32_t(row) * 128 + ((piece ^ std::uint32_t(lane % 8)) << 4);
}
__device__ inline void store_mirrored_matrices(std::uint32_t row, const std::uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
// One element of a box.
__device__ inline void store_element(std::uint32_t box, int row, int column, std::uint32_t bits) {
  const std::uint32_t place = box + std::uint32_t(row * 128 + ((column / 8 ^ row % 8) << 4) + column % 8 * 2);
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(place), "h"(std::uint16_t(bits)) : "memory");
}

// A map is in the cache when the first copy wants it.
__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace mylos::kernels::hopper

#endif
#endif
