// Instructions of Hopper that CUDA C++ has no words for: barriers that count bytes, tensor copies (TMA) to the blocks of a cluster, products by
// warpgroups. For files that are compiled for sm_90a; addresses are those of shared memory, 32 bits.
// Source: PTX ISA 8.0 and later, mbarrier, cp.async.bulk.tensor, wgmma.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace mylos::kernels::hopper {

bool is_hopper();  // this build has the instructions, and the device of this thread, too

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline std::uint32_t shared_address(const void* p) { return std::uint32_t(__cvta_generic_to_shared(p)); }

// -- barriers: a phase ends when `arrivals` have arrived and the bytes that were announced are there --

__device__ inline void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Other blocks of the cluster and the copy engine see the barriers only behind this and a synchronize_cluster().
__device__ inline void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Arrives at this block's barrier and announces bytes that copies will bring.
__device__ inline void arrive_and_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives at the same barrier of block `rank` of the cluster. Scopes here and in wait() are the block: what is handed over are reads by products that are done and copies that
// count their bytes. A scope of the cluster would cost a fence of the whole device at each arrival, and all of the L1 cache at each wait: a quarter of a product's speed.
__device__ inline void arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// Waits for the end of the phase of this parity: phases are counted from 0, and the one before the first has parity 1.
__device__ inline void wait(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}
__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All threads of all blocks of the cluster.
__device__ inline void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// -- copies: a box of the tensor, whose first element is (x, y), to shared memory; its bytes count at `barrier` --

__device__ inline void fetch_box(std::uint32_t to, const CUtensorMap* map, int x, int y, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
// The same to the same place of each block of the cluster whose bit is set in `blocks`, and counted at each one's barrier.
__device__ inline void fetch_box_for(std::uint16_t blocks, std::uint32_t to, const CUtensorMap* map, int x, int y,
                                     std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%2, "
      "%3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

// -- results: from shared memory to a box of the tensor, but for what lies outside of it --

__device__ inline void store_box(const CUtensorMap* map, int x, int y, std::uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
}
__device__ inline void end_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until what all groups but the last kLater read of shared memory may be written again; of groups that this thread ended.
template <int kLater>
__device__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLater) : "memory");
}
// What threads wrote to shared memory is there for store_box() after this and a barrier.
__device__ inline void fence_for_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four matrices of 8 x 8 words of 16 bits, to shared memory and from it: lane l gives the address of row l % 8 of matrix l / 8, 16 bytes, and has two neighbours of
// row l / 4 of each.
__device__ inline void store_matrices(std::uint32_t row, const std::uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

__device__ inline void load_matrices(std::uint32_t row, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}

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
#undef MYLOS_SUMS8

// For a kernel of three warpgroups, one of which only starts copies.
__device__ inline void take_few_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
__device__ inline void take_many_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }

#endif

}  // namespace mylos::kernels::hopper
#endif
