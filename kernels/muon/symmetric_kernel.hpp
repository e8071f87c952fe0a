// The kernel behind symmetric_tiles.hpp.
//
// Two blocks in one column of tiles are a cluster and share its columns. Each has a tile of S x S sums; S / 64 of its warpgroups multiply, 64 rows each, and a thread of one
// more warp brings operands, in slices of 64 along l: its own rows, and half of the columns for both blocks. Blocks stay and take tile after tile.
// What a tile of 128 x 128 brings for each product, 1/64 of a byte, is more than the L2 cache gives at full speed; 192 x 192 shared by two take half of that, as much as
// the 128 x 256 of matmul/hopper_tiles.hpp, and ten of them are a triangle of 768: those of twelve matrices are one wave of an H200's multiprocessors.
// Results leave in parts of 64 columns from stages of the ring, where the addend came before them: each a box of C, and its mirror image.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include <algorithm>
#include <cstdint>

#include "kernels/detail/pack.hpp"
#include "kernels/muon/hopper_symmetric.hpp"
#include "kernels/muon/triangle.hpp"

namespace mylos::kernels::hopper::triangle {

inline constexpr int kSlice = 64;

template <int kSide>
struct Shape {
  static constexpr int kGroups = kSide / 64, kThreads = kGroups * 128 + 32;
  static constexpr int kBlocks = kSide > 128 ? 1 : 2, kStages = kSide > 128 ? 4 : 3;  // of a multiprocessor; of a block
  static constexpr int kOperandBytes = kSide * kSlice * 2, kStageBytes = 2 * kOperandBytes;
  static constexpr int kScratch = kStages * kStageBytes + 1024;  // the swizzle wants 1024 bytes of alignment
  // Parts of a tile's results, each in a stage that nothing else has in the meantime.
  static constexpr int kParts = kSide / kBox;
  static_assert(kParts < kStages);
};

struct Symmetric {
  CUtensorMap a, b, c, z;                  // all matrices of a batch below each other (a, b), or behind each other
  int side, strips, pairs, tiles, slices;  // tiles: pairs of all matrices
  int a_step, b_step;                      // rows from one matrix to the next
  float alpha, beta;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A place in the ring of stages, and the parity of its phase.
template <int kStages>
struct Turn {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

struct Work {
  int matrix, row, column;  // of the tile, in tiles
  bool counts;              // false: the cluster's other block has the same one
};
__device__ inline Work work_at(const Symmetric& s, int index, int rank) {
  const detail::TilePair pair = detail::pair_of_triangle(s.strips, index % s.pairs);
  return {index / s.pairs, rank == 0 ? pair.first : pair.second, pair.column, rank == 0 || pair.second != pair.first};
}

template <int kSide, bool kAcross>
__device__ void bring(const Symmetric& s, std::uint32_t stages, std::uint32_t full, std::uint32_t empty) {
  using S = Shape<kSide>;
  const int clusters = int(gridDim.x) / 2, rank = int(cluster_rank());
  Turn<S::kStages> turn;
  for (int t = int(blockIdx.x) / 2; t < s.tiles; t += clusters) {
    const Work work = work_at(s, t, rank);
    const int row = work.row * kSide, column = work.column * kSide, a = work.matrix * s.a_step,
              b = work.matrix * s.b_step;
    for (int slice = 0; slice < s.slices; ++slice, turn.next()) {
      const int l = slice * kSlice;
      const std::uint32_t rows = stages + turn.stage * S::kStageBytes, columns = rows + S::kOperandBytes,
                          arrived = full + turn.stage * 8;
      wait(empty + turn.stage * 8, turn.parity ^ 1);
      arrive_and_expect(arrived, S::kStageBytes);
      if constexpr (kAcross) {  // half of the columns: that of l
#pragma unroll
        for (int box = 0; box < kSide / kBox; ++box) {
          fetch_box(rows + box * kBoxBytes, &s.a, row + box * kBox, a + l, arrived);
          fetch_box_for(3, columns + box * kBoxBytes + rank * (kBoxBytes / 2), &s.b, column + box * kBox,
                        b + l + rank * (kSlice / 2), arrived);
        }
      } else {
        fetch_box(rows, &s.a, l, a + row, arrived);
        fetch_box_for(3, columns + rank * (S::kOperandBytes / 2), &s.b, l, b + column + rank * (kSide / 2), arrived);
      }
    }
    for (int part = 0; part < S::kParts; ++part, turn.next()) {
      const std::uint32_t arrived = full + turn.stage * 8;
      wait(empty + turn.stage * 8, turn.parity ^ 1);
      arrive_and_expect(arrived, s.beta != 0.0f ? S::kOperandBytes : 0);
      if (s.beta != 0.0f)
        fetch_box(stages + turn.stage * S::kStageBytes, &s.z, column + part * kBox, row, work.matrix, 0, arrived);
    }
  }
}

// Scales, adds and rounds 64 x 64 sums, and stores them and their mirror image. On the diagonal of C the elements below it stand for those above.
template <int kSums>
__device__ void store_part(const Symmetric& s, const float (&d)[kSums], int part, std::uint32_t box,
                           std::uint32_t mirror, const Work& work, const Warpgroup& group) {
  constexpr int kSide = 2 * kSums;
  const int row = work.row * kSide + group.half() * kBox, column = work.column * kSide + part * kBox;
  const bool on_diagonal = row == column;
  if (!work.counts || row >= s.side || column >= s.side || (work.row == work.column && row < column)) return;
#pragma unroll
  for (int g = 0; g < kBox / 16; ++g) {
    const std::uint32_t place = row_of_matrix(box, g);
    std::uint32_t words[4], addends[4];
    if (s.beta != 0.0f) load_matrices(place, addends);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float* sum = d + 32 * part + 8 * g + 4 * (n / 2) + 2 * (n % 2);
      Floats<2> x{{s.alpha * sum[0], s.alpha * sum[1]}};
      if (s.beta != 0.0f) {
        const Floats<2> y = to_floats(Words<2, bf16>{{addends[n]}});
        x = {{Kokkos::fma(s.beta, y.v[0], x.v[0]), Kokkos::fma(s.beta, y.v[1], x.v[1])}};
      }
      words[n] = to_words<bf16>(x).v[0];
    }
    if (on_diagonal) {
      // Into the mirror image's place: the other still has addends that other warps read.
      const int lane = int(threadIdx.x) % 32;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int i = int(threadIdx.x) / 32 % 4 * 16 + e / 2 % 2 * 8 + lane / 4,
                  j = 16 * g + e / 4 * 8 + lane % 4 * 2 + e % 2;
        const std::uint32_t bits = words[e / 2] >> (e % 2 * 16);
        if (i < j) continue;
        store_element(mirror, i, j, bits);
        store_element(mirror, j, i, bits);
      }
    } else {
      store_matrices(place, words);
      store_mirrored_matrices(mirrored_row_of_matrix(mirror, g), words);
    }
  }
  fence_for_stores();
  group.synchronize();
  if (!group.leads()) return;
  if (!on_diagonal) store_box(&s.c, column, row, work.matrix, 0, box);
  store_box(&s.c, row, column, work.matrix, 0, mirror);
}

template <int kSide, bool kAcross>
__device__ void multiply(const Symmetric& s, std::uint32_t stages, std::uint32_t full, std::uint32_t empty) {
  using S = Shape<kSide>;
  const int clusters = int(gridDim.x) / 2, rank = int(cluster_rank()),
            of_block = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0), warp = int(threadIdx.x) / 32 % 4;
  const std::uint64_t first_rows = descriptor<kAcross>(stages + of_block * kBoxBytes),
                      first_columns = descriptor<kAcross>(stages + S::kOperandBytes);
  // One thread for each block of the cluster says that this warpgroup has done with a stage: both blocks brought parts of it.
  const bool tells = threadIdx.x % 32 == 0 && warp < 2;
  const Warpgroup group(of_block);
  int leaving = -1;  // the stage that the last part's results are on their way out of; known to the leader
  const auto leave = [&] {
    for (int block = 0; block < 2; ++block) arrive_at(empty + leaving * 8, block);
  };
  Turn<S::kStages> turn;
  float d[kSide / 2];
  for (int t = int(blockIdx.x) / 2; t < s.tiles; t += clusters) {
    const Work work = work_at(s, t, rank);
#pragma unroll
    for (float& x : d) x = 0.0f;
    int last = 0;
    for (int slice = 0; slice < s.slices; ++slice, turn.next()) {
      const std::uint64_t rows = behind(first_rows, turn.stage * S::kStageBytes),
                          columns = behind(first_columns, turn.stage * S::kStageBytes);
      wait(full + turn.stage * 8, turn.parity);
      begin_products();
#pragma unroll
      for (int k = 0; k < kSlice / 16; ++k) {
        constexpr int kNext = kAcross ? 2048 : 32;
        multiply_add<kAcross>(d, behind(rows, k * kNext), behind(columns, k * kNext));
      }
      end_products();
      wait_for_products<1>();
      if (leaving >= 0) {
        wait_for_stores<0>();
        leave();
        leaving = -1;
      }
      if (tells && slice > 0) arrive_at(empty + last * 8, warp);
      last = turn.stage;
    }
    wait_for_products<0>();
    if (tells) arrive_at(empty + last * 8, warp);
    take_sums(d);
#pragma unroll
    for (int part = 0; part < S::kParts; ++part, turn.next()) {
      const std::uint32_t box = stages + turn.stage * S::kStageBytes + of_block * kBoxBytes;
      wait(full + turn.stage * 8, turn.parity);
      store_part(s, d, part, box, box + S::kOperandBytes, work, group);
      if (!group.leads()) continue;
      end_stores();  // a group for each part, be it empty
      if (leaving >= 0) {
        wait_for_stores<1>();
        leave();
      }
      leaving = turn.stage;
    }
  }
  if (group.leads()) wait_for_stores<0>();  // shared memory goes away
}

#endif

template <int kSide, bool kAcross>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(Shape<kSide>::kThreads, Shape<kSide>::kBlocks)
    symmetric_tiles([[maybe_unused]] const __grid_constant__ Symmetric s) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using S = Shape<kSide>;
  extern __shared__ char raw[];
  __shared__ std::uint64_t barriers[2 * S::kStages];
  const std::uint32_t stages = (shared_address(raw) + 1023) / 1024 * 1024, full = shared_address(barriers),
                      empty = full + S::kStages * 8;
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      init_barrier(full + i * 8, 1);
      init_barrier(empty + i * 8, 2 * S::kGroups);  // the warpgroups of both blocks
    }
    fence_barriers();
  }
  if (threadIdx.x == S::kGroups * 128)
    for (const CUtensorMap* map : {&s.a, &s.b, &s.z, &s.c}) prefetch_map(map);
  let_next_kernel_begin();
  synchronize_cluster();
  wait_for_kernel_before();
  if (threadIdx.x >= S::kGroups * 128) {
    if (threadIdx.x % 32 == 0) bring<kSide, kAcross>(s, stages, full, empty);
  } else {
    multiply<kSide, kAcross>(s, stages, full, empty);
  }
  __syncwarp();
  synchronize_cluster();  // the other block may still bring operands here, or arrive
#endif
}

// -- host --

template <int kSide, bool kAcross>
void launch(cudaStream_t stream, const Symmetric& s, bool early) {
  using S = Shape<kSide>;
  const auto kernel = symmetric_tiles<kSide, kAcross>;
  cudaLaunchAttribute attribute{};  // the size of a cluster is the kernel's own
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.blockDim = {S::kThreads, 1, 1};
  config.dynamicSmemBytes = S::kScratch;
  config.stream = stream;
  static const int clusters = [&] {
    check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kScratch),
                 "shared memory");
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t two = config;
    two.gridDim = {2, 1, 1};
    two.stream = nullptr;
    two.attrs = &cluster;
    two.numAttrs = 1;
    int most = 0;
    check_launch(cudaOccupancyMaxActiveClusters(&most, kernel, &two), "clusters");
    return std::max(most, 1);
  }();
  config.gridDim = {unsigned(2 * std::min(clusters, s.tiles)), 1, 1};
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  check_launch(cudaLaunchKernelEx(&config, kernel, s), "launch");
}

}  // namespace mylos::kernels::hopper::triangle
#endif
