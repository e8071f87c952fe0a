// The product of large bf16 matrices on Hopper, one kernel with the end of each tile left open: what becomes of its fp32 sums.
//
// Two blocks of neighbouring rows are a cluster and share the columns. Each has a tile of 128 x 256 sums; two of its warpgroups multiply, 64 rows each, and
// one thread of the third brings operands, in slices of 64 along l, four of them under way: its own rows, and half of the columns for both blocks. Blocks stay and
// take tile after tile, so that the next tile's operands arrive while the sums of the last are written.
//
//   struct End {                                                        // copied to the device
//     __device__ int operand_row(int tile, int half) const;             // of op(B)ᵀ: where the 128 rows begin that are columns [0, 128) or [128, 256) of a tile
//     // Results leave in so many parts, each from a stage of the ring, where kPartBytes of what the end reads come before:
//     static constexpr int kParts, kPartBytes;
//     __device__ void bring(int part, std::uint32_t stage, int row, int tile, std::uint32_t barrier) const;  // starts the copies for 128 rows, by one thread
//     // By 128 threads: sums of 64 rows from `row` on, as hopper_products.hpp lays them out. The leader ends one group of stores.
//     __device__ void operator()(const float (&d)[128], int part, std::uint32_t stage, int row, int tile, const Warpgroup& group) const;
//   };
//   launch_tiles<false, false>(stream, map_of(...), map_of(...), schedule_of(...), End{...});
//
// kAcross: rows of the operand run along its other side, not along l. What lies outside of an operand is read as 0 and must not be written.
// Sums are added in one order: the same bits in every run.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include <algorithm>

#include "base/error.hpp"
#include "kernels/detail/hopper_ring.hpp"
#include "kernels/matmul/hopper_boxes.hpp"
#include "kernels/matmul/tiles.hpp"

namespace mylos::kernels::hopper {

inline constexpr int kTileRows = 128, kTileColumns = 256, kSlice = 64, kStages = 4, kTileThreads = 384;
inline constexpr int kRowBytes = kTileRows * kSlice * 2, kColumnBytes = kTileColumns * kSlice * 2,
                     kStageBytes = kRowBytes + kColumnBytes;
inline constexpr int kTileScratch = kStages * kStageBytes + 1024;  // the swizzle wants 1024 bytes of alignment

struct Schedule {
  int pairs, columns, slices;  // pairs of tiles of rows, tiles of columns, slices along l
  detail::TileOptions options;
};
struct Tile {
  int pair, column;
};

__host__ __device__ inline Tile tile_at(const Schedule& s, int index) {
  const int most = s.options.strip, strip = index / (most * s.columns), within = index % (most * s.columns),
            left = s.pairs - strip * most, deep = left < most ? left : most;
  return {strip * most + within % deep, within / deep};
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Of the two warpgroups that multiply, the second waits until the first arrives.
__device__ inline void arrive_for_waiting() { asm volatile("barrier.cta.arrive 1, 256;" ::: "memory"); }
__device__ inline void wait_for_arrival() { asm volatile("barrier.cta.sync 1, 256;" ::: "memory"); }

using TileRing = Ring<kStages, kStageBytes>;

template <bool kAcrossA, bool kAcrossB, class End>
__device__ void bring_operands(const CUtensorMap& a, const CUtensorMap& b, const Schedule& schedule, const End& end,
                               const TileRing& ring) {
  const int clusters = int(gridDim.x) / 2, rank = int(cluster_rank());
  TileRing::Turn turn;
  for (int t = int(blockIdx.x) / 2; t < schedule.pairs * schedule.columns; t += clusters) {
    const Tile tile = tile_at(schedule, t);
    const int row = (2 * tile.pair + rank) * kTileRows, column = end.operand_row(tile.column, rank);
    for (int slice = 0; slice < schedule.slices; ++slice, turn.next()) {
      const int l = slice * kSlice;
      const std::uint32_t rows = ring.stage(turn.stage), columns = rows + kRowBytes + rank * kColumnBytes / 2,
                          arrived = ring.open(turn, kStageBytes);
      if constexpr (kAcrossA) {
        fetch_box(rows, &a, row, l, arrived);
        fetch_box(rows + kRowBytes / 2, &a, row + 64, l, arrived);
      } else {
        fetch_box(rows, &a, l, row, arrived);
      }
      if constexpr (kAcrossB) {
        fetch_box_for(3, columns, &b, column, l, arrived);
        fetch_box_for(3, columns + kColumnBytes / 4, &b, column + 64, l, arrived);
      } else {
        fetch_box_for(3, columns, &b, l, column, arrived);
      }
    }
    for (int part = 0; part < End::kParts; ++part, turn.next()) {
      const std::uint32_t arrived = ring.open(turn, End::kPartBytes);
      end.bring(part, ring.stage(turn.stage), row, tile.column, arrived);
    }
  }
}

template <bool kAcrossA, bool kAcrossB, class End>
__device__ void multiply(const Schedule& schedule, const End& end, const TileRing& ring) {
  const int clusters = int(gridDim.x) / 2, rank = int(cluster_rank()),
            half = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128 - 1, 0), warp = int(threadIdx.x) / 32 % 4;
  const std::uint64_t first_rows = descriptor<kAcrossA>(ring.stage(0) + half * (kRowBytes / 2)),
                      first_columns = descriptor<kAcrossB>(ring.stage(0) + kRowBytes);
  // One thread for each block of the cluster says that this warpgroup has done with a stage: both blocks brought parts of it.
  const bool tells = threadIdx.x % 32 == 0 && warp < 2;
  // The second warpgroup begins behind the first and stays behind: while one writes sums, the other multiplies.
  const int lag = min(schedule.options.lag, schedule.slices - 1);
  if (lag > 0 && half == 1) wait_for_arrival();
  bool ahead = lag > 0 && half == 0;
  const Warpgroup group(half);
  Departure departure(ring);  // the leader's
  TileRing::Turn turn;
  float d[128];
  for (int t = int(blockIdx.x) / 2; t < schedule.pairs * schedule.columns; t += clusters) {
    int last = 0;
    for (int slice = 0; slice < schedule.slices; ++slice, turn.next()) {
      const std::uint64_t rows = behind(first_rows, turn.stage * kStageBytes),
                          columns = behind(first_columns, turn.stage * kStageBytes);
      ring.await(turn);
      begin_products();
#pragma unroll
      for (int k = 0; k < kSlice / 16; ++k)
        multiply_add<kAcrossA, kAcrossB>(d, behind(rows, k * (kAcrossA ? 2048 : 32)),
                                         behind(columns, k * (kAcrossB ? 2048 : 32)), slice | k);
      end_products();
      wait_for_products<1>();
      departure.template settle<0>();
      if (tells && slice > 0) ring.release(last, warp);
      if (ahead && slice == lag) {
        arrive_for_waiting();
        ahead = false;
      }
      last = turn.stage;
    }
    wait_for_products<0>();
    if (tells) ring.release(last, warp);
    take_sums(d);
    const Tile tile = tile_at(schedule, t);
    const int row = (2 * tile.pair + rank) * kTileRows + half * 64;
#pragma unroll
    for (int part = 0; part < End::kParts; ++part, turn.next()) {
      ring.await(turn);
      end(d, part, ring.stage(turn.stage), row, tile.column, group);
      if (group.leads()) departure.begin(turn.stage);
    }
  }
  if (group.leads()) wait_for_stores<0>();  // shared memory goes away
}

#endif

template <bool kAcrossA, bool kAcrossB, class End>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kTileThreads, 1)
    tiles([[maybe_unused]] const __grid_constant__ CUtensorMap a,
          [[maybe_unused]] const __grid_constant__ CUtensorMap b, [[maybe_unused]] const Schedule schedule,
          [[maybe_unused]] const __grid_constant__ End end) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  __shared__ std::uint64_t barriers[2 * kStages];
  const TileRing ring(raw, barriers);
  if (threadIdx.x == 0) ring.initialize(2);
  synchronize_cluster();
  if (threadIdx.x < 128) {
    take_few_registers();
    if (threadIdx.x == 0) bring_operands<kAcrossA, kAcrossB>(a, b, schedule, end, ring);
  } else {
    take_many_registers();
    multiply<kAcrossA, kAcrossB>(schedule, end, ring);
  }
  __syncwarp();
  synchronize_cluster();  // the other block may still bring operands here, or arrive
#endif
}

// -- host --

inline Schedule schedule_of(std::int64_t rows, std::int64_t tiles_of_columns, std::int64_t length,
                            const detail::TileOptions& options) {
  // A warpgroup that is further ahead than there are stages would wait for the one that waits for it.
  static_assert(detail::TileOptions::kMostLag < kStages);
  check_plain(options.strip > 0 && options.lag >= 0 && options.lag <= detail::TileOptions::kMostLag,
              "tiles: strip must be above 0, lag 0 to 3");
  return {int((rows + 2 * kTileRows - 1) / (2 * kTileRows)), int(tiles_of_columns), int((length + kSlice - 1) / kSlice),
          options};
}

// The boxes in which an operand is brought: 64 elements of each of `rows` rows, swizzled. `matrix` [height, width].
CUtensorMap map_of(const detail::StoredMatrix& matrix, std::int64_t height, std::int64_t width, int rows);
CUtensorMap map_of(const Tensor& dense, int rows);
// Whether an operand can be brought in boxes: rows that begin at multiples of 16 bytes.
bool can_map(const detail::StoredMatrix& matrix, std::int64_t height, std::int64_t width);
bool can_map(const Tensor& dense);

template <bool kAcrossA, bool kAcrossB, class End>
void launch_tiles(cudaStream_t stream, const CUtensorMap& a, const CUtensorMap& b, const Schedule& schedule,
                  const End& end) {
  const auto kernel = tiles<kAcrossA, kAcrossB, End>;
  static const int clusters = resident_clusters(reinterpret_cast<const void*>(kernel), kTileThreads, kTileScratch);
  kernel<<<2 * std::min(clusters, schedule.pairs * schedule.columns), kTileThreads, kTileScratch, stream>>>(
      a, b, schedule, end);
  check_launch(cudaGetLastError(), "launch");
}

}  // namespace mylos::kernels::hopper
#endif
