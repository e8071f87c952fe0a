// Products by the warpgroups of Hopper. Source: PTX ISA 8.0 and later, wgmma.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace mylos::kernels::hopper {

// -- products: D [64, 256] (+)= A · B of 16 along l, by the 128 threads of a warpgroup; both operands in shared memory in the 128-byte swizzle --
// Thread t has in d[4 j + 2 i + e] the element of row 16 (t / 32) + t % 32 / 4 + 8 i and column 8 j + 2 (t % 4) + e.

// An operand whose rows of 64 elements run along l lies in atoms of 8 rows, one after the other along its other side (kAcross false); one whose rows run
// along that other side has atoms of 8 rows that follow each other along l first, `kAcrossBytes` to the next 64 of the side.
template <bool kAcross, int kAcrossBytes = 8192>
__device__ std::uint64_t descriptor(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t(1) << 62, kNext = std::uint64_t(1024 >> 4) << 32,
                          kNextAcross = std::uint64_t(kAcross ? kAcrossBytes >> 4 : 1) << 16;
  return kSwizzle128 | kNext | kNextAcross | ((address & 0x3FFFF) >> 4);
}
// The descriptor of what lies so many bytes behind: addresses are in the lower half, which they do not fill.
__device__ inline std::uint64_t behind(std::uint64_t descriptor, std::uint32_t bytes) {
  return (descriptor & ~std::uint64_t(0xFFFFFFFF)) | (std::uint32_t(descriptor) + (bytes >> 4));
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all groups but the last kLater are done.
template <int kLater>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLater) : "memory");
}

#define MYLOS_SUMS8(i)                                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

// `add` 0: D = A · B.
template <bool kAcrossA, bool kAcrossB>
__device__ void multiply_add(float (&d)[128], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p, 1, 1, %131, %132;\n}"
      : MYLOS_SUMS8(0), MYLOS_SUMS8(8), MYLOS_SUMS8(16), MYLOS_SUMS8(24), MYLOS_SUMS8(32), MYLOS_SUMS8(40),
        MYLOS_SUMS8(48), MYLOS_SUMS8(56), MYLOS_SUMS8(64), MYLOS_SUMS8(72), MYLOS_SUMS8(80), MYLOS_SUMS8(88),
        MYLOS_SUMS8(96), MYLOS_SUMS8(104), MYLOS_SUMS8(112), MYLOS_SUMS8(120)
      : "l"(a), "l"(b), "r"(add), "n"(int(kAcrossA)), "n"(int(kAcrossB)));
}

// The same of 128 columns.
template <bool kAcrossA, bool kAcrossB>
__device__ void multiply_add(float (&d)[64], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, %67, %68;\n}"
      : MYLOS_SUMS8(0), MYLOS_SUMS8(8), MYLOS_SUMS8(16), MYLOS_SUMS8(24), MYLOS_SUMS8(32), MYLOS_SUMS8(40),
        MYLOS_SUMS8(48), MYLOS_SUMS8(56)
      : "l"(a), "l"(b), "r"(add), "n"(int(kAcrossA)), "n"(int(kAcrossB)));
}

// And of 64.
template <bool kAcrossA, bool kAcrossB>
__device__ void multiply_add(float (&d)[32], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, 1, 1, %35, %36;\n}"
      : MYLOS_SUMS8(0), MYLOS_SUMS8(8), MYLOS_SUMS8(16), MYLOS_SUMS8(24)
      : "l"(a), "l"(b), "r"(add), "n"(int(kAcrossA)), "n"(int(kAcrossB)));
}

// The same of 128 columns, with A in registers: two neighbours along l a word, of rows r and r + 8, then of l + 8. They may be written again when the product
// is done.
template <bool kAcrossB>
__device__ void multiply_add(float (&d)[64], const std::uint32_t* a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
      : MYLOS_SUMS8(0), MYLOS_SUMS8(8), MYLOS_SUMS8(16), MYLOS_SUMS8(24), MYLOS_SUMS8(32), MYLOS_SUMS8(40),
        MYLOS_SUMS8(48), MYLOS_SUMS8(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(int(kAcrossB)));
}

// And of 64.
template <bool kAcrossB>
__device__ void multiply_add(float (&d)[32], const std::uint32_t* a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
      : MYLOS_SUMS8(0), MYLOS_SUMS8(8), MYLOS_SUMS8(16), MYLOS_SUMS8(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(int(kAcrossB)));
}
#undef MYLOS_SUMS8

// D += A · B of 128 columns, both operands in shared memory and along or across alike.
template <bool kAcross>
__device__ void multiply_add(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  multiply_add<kAcross, kAcross>(d, a, b, 1);
}

// Sums have a value only behind the wait for their products: no use of them moves above this.
template <int kCount>
__device__ void take_sums(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace mylos::kernels::hopper

#endif
#endif
