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

#include "kernels/detail/hopper_ring.hpp"
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

template <int kSide>
using RingOf = Ring<Shape<kSide>::kStages, Shape<kSide>::kStageBytes>;

struct Work {
  int matrix, row, column;  // of the tile, in tiles
  bool counts;              // false: the cluster's other block has the same one
};
__device__ inline Work work_at(const Symmetric& s, int index, int rank) {
  const detail::TilePair pair = detail::pair_of_triangle(s.strips, index % s.pairs);
  return {index / s.pairs, rank == 0 ? pair.first : pair.second, pair.column, rank == 0 || pair.second != pair.first};
}

template <int kSide, bool kAcross>
__device__ void bring(const Symmetric& s, const RingOf<kSide>& ring) {
  using S = Shape<kSide>;
  const int clusters = int(gridDim.x) / 2, rank = int(cluster_rank());
  typename RingOf<kSide>::Turn turn;
  for (int t = int(blockIdx.x) / 2; t < s.tiles; t += clusters) {
    const Work work = work_at(s, t, rank);
    const int row = work.row * kSide, column = work.column * kSide, a = work.matrix * s.a_step,
              b = work.matrix * s.b_step;
    for (int slice = 0; slice < s.slices; ++slice, turn.next()) {
      const int l = slice * kSlice;
      const std::uint32_t rows = ring.stage(turn.stage), columns = rows + S::kOperandBytes,
                          arrived = ring.open(turn, S::kStageBytes);
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
      const std::uint32_t arrived = ring.open(turn, s.beta != 0.0f ? S::kOperandBytes : 0);
      if (s.beta != 0.0f) fetch_box(ring.stage(turn.stage), &s.z, column + part * kBox, row, work.matrix, 0, arrived);
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
__device__ void multiply(const Symmetric& s, const RingOf<kSide>& ring) {
  using S = Shape<kSide>;
  const int clusters = int(gridDim.x) / 2, rank = int(cluster_rank()),
            of_block = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0), warp = int(threadIdx.x) / 32 % 4;
  const std::uint64_t first_rows = descriptor<kAcross>(ring.stage(0) + of_block * kBoxBytes),
                      first_columns = descriptor<kAcross>(ring.stage(0) + S::kOperandBytes);
  // One thread for each block of the cluster says that this warpgroup has done with a stage: both blocks brought parts of it.
  const bool tells = threadIdx.x % 32 == 0 && warp < 2;
  const Warpgroup group(of_block);
  Departure departure(ring);  // the leader's
  typename RingOf<kSide>::Turn turn;
  float d[kSide / 2];
  for (int t = int(blockIdx.x) / 2; t < s.tiles; t += clusters) {
    const Work work = work_at(s, t, rank);
#pragma unroll
    for (float& x : d) x = 0.0f;
    int last = 0;
    for (int slice = 0; slice < s.slices; ++slice, turn.next()) {
      const std::uint64_t rows = behind(first_rows, turn.stage * S::kStageBytes),
                          columns = behind(first_columns, turn.stage * S::kStageBytes);
      ring.await(turn);
      begin_products();
#pragma unroll
      for (int k = 0; k < kSlice / 16; ++k) {
        constexpr int kNext = kAcross ? 2048 : 32;
        multiply_add<kAcross>(d, behind(rows, k * kNext), behind(columns, k * kNext));
      }
      end_products();
      wait_for_products<1>();
      departure.template settle<0>();
      if (tells && slice > 0) ring.release(last, warp);
      last = turn.stage;
    }
    wait_for_products<0>();
    if (tells) ring.release(last, warp);
    take_sums(d);
#pragma unroll
    for (int part = 0; part < S::kParts; ++part, turn.next()) {
      const std::uint32_t box = ring.stage(turn.stage) + of_block * kBoxBytes;
      ring.await(turn);
      store_part(s, d, part, box, box + S::kOperandBytes, work, group);
      if (!group.leads()) continue;
      end_stores();  // a group for each part, be it empty
      departure.begin(turn.stage);
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
  const RingOf<kSide> ring(raw, barriers);
  if (threadIdx.x == 0) ring.initialize(S::kGroups);
  if (threadIdx.x == S::kGroups * 128)
    for (const CUtensorMap* map : {&s.a, &s.b, &s.z, &s.c}) prefetch_map(map);
  synchronize_cluster();
  if (threadIdx.x >= S::kGroups * 128) {
    if (threadIdx.x % 32 == 0) bring<kSide, kAcross>(s, ring);
  } else {
    multiply<kSide, kAcross>(s, ring);
  }
  __syncwarp();
  synchronize_cluster();  // the other block may still bring operands here, or arrive
#endif
}

// -- host --

template <int kSide, bool kAcross>
void launch(cudaStream_t stream, const Symmetric& s) {
  using S = Shape<kSide>;
  const auto kernel = symmetric_tiles<kSide, kAcross>;
  static const int clusters = resident_clusters(reinterpret_cast<const void*>(kernel), S::kThreads, S::kScratch);
  kernel<<<2 * std::min(clusters, s.tiles), S::kThreads, S::kScratch, stream>>>(s);
  check_launch(cudaGetLastError(), "launch");
}

}  // namespace mylos::kernels::hopper::triangle
#endif
