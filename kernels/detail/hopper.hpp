// Instructions of Hopper that CUDA C++ has no words for: barriers that count bytes, tensor copies (TMA) to the blocks of a cluster
// (products by warpgroups: hopper_products.hpp). For files that are compiled for sm_90a; addresses are those of shared memory, 32 bits.
// Source: PTX ISA 8.0 and later, mbarrier, cp.async.bulk.tensor.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <span>

namespace mylos::kernels::hopper {

bool is_hopper();  // this build has the instructions, and the device of this thread, too

// Boxes of a bf16 tensor as copies bring and take them, in the 128-byte swizzle: a box is 64 elements wide. Extents from the dense dimension outwards,
// strides in elements of all but that one, multiples of 8. What lies outside is read as 0 and not written.
CUtensorMap map_of(void* data, std::span<const std::int64_t> extents, std::span<const std::int64_t> strides,
                   std::span<const int> box);
void check_launch(cudaError_t status, const char* what);

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
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
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

// The same of a tensor of four dimensions.
__device__ inline void fetch_box(std::uint32_t to, const CUtensorMap* map, int x, int y, int z, int w,
                                 std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
      "[%6];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}
// Bytes as they lie, multiples of 16.
__device__ inline void fetch_bytes(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
               : "memory");
}

// -- results: from shared memory to a box of the tensor, but for what lies outside of it --

__device__ inline void store_box(const CUtensorMap* map, int x, int y, std::uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
}
__device__ inline void store_box(const CUtensorMap* map, int x, int y, int z, int w, std::uint32_t from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
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

// For a kernel of three warpgroups, one of which only starts copies: kFew + 2 kMany are at most 504.
template <int kFew = 24>
__device__ void take_few_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFew));
}
template <int kMany = 240>
__device__ void take_many_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMany));
}

#endif

}  // namespace mylos::kernels::hopper
#endif
