// The warp-level pieces of the tensor-core kernels: 16-row blocks of a 64-row tile, their products by mma.m16n8k16 on bf16
// with fp32 sums, and reductions over a row.
//
// A team has 4 warps, and warp w owns rows 16 w to 16 w + 15 of the tile that a team works on. On a GPU a thread is a lane
// and holds its own part of a fragment; on a CPU the team is one thread that walks over the warps and holds all 32 lanes,
// and the instructions are spelled out, so that the same source and the same order of work is what tests hold there.
//
// Fragments are the instruction's: of a 16 x 8 block of sums lane l has columns 2 (l % 4) and the next, of rows l / 4 (0, 1)
// and l / 4 + 8 (2, 3); a pair of such blocks, rounded, is the left operand of a product over their columns.
// Source: PTX ISA, "Matrix fragments for mma.m16n8k16" and "ldmatrix".
#pragma once

#include <cstdint>

#include "tensor/bf16.hpp"
#include "tensor/detail/exec.hpp"

#if defined(__CUDA_ARCH__)
#define MYLOS_UNROLLED _Pragma("unroll")
#else
#define MYLOS_UNROLLED
#endif

namespace mylos::kernels::attention::tiles {

inline constexpr int kTile = 64, kWarps = kTile / 16;
inline constexpr int kThreads = kOnGpu ? 32 * kWarps : 1;
inline constexpr int kOwnWarps = kOnGpu ? 1 : kWarps, kOwnLanes = kOnGpu ? 1 : 32;

template <int kRegisters>
using Operand = std::uint32_t[kOwnLanes][kRegisters];
template <int kBlocks>
using Sums = float[kOwnLanes][kBlocks][4];

// One warp, by the thread or one of the threads that are it.
struct Warp {
  int index, first_lane;
  KOKKOS_FUNCTION int lane(int own) const { return first_lane + own; }
  KOKKOS_FUNCTION int row() const { return 16 * index; }
  KOKKOS_FUNCTION void sync() const { KOKKOS_IF_ON_DEVICE((__syncwarp();)) }
};
// f(warp, its place among those of this thread)
template <class Team, class F>
KOKKOS_FUNCTION void each_warp(const Team& team, const F& f) {
  if constexpr (kOnGpu)
    f(Warp{int(team.team_rank()) / 32, int(team.team_rank()) % 32}, 0);
  else
    for (int w = 0; w < kWarps; ++w) f(Warp{w, 0}, w);
}

// 64 rows of kWidth bf16 in scratch memory, in pieces of 16 bytes that lie so that 8 rows of a column of pieces are in
// different banks.
template <int kWidth>
struct Tile {
  static constexpr int kPieces = kWidth / 8, kBytes = kTile * kWidth * 2;
  bf16* base;
  KOKKOS_FUNCTION static int place(int row, int p) { return row * kWidth + (p ^ (row & 7)) * 8; }
  KOKKOS_FUNCTION bf16* piece(int row, int p) const { return base + place(row, p); }
};

KOKKOS_FUNCTION inline float low(std::uint32_t pair) { return std::bit_cast<float>(pair << 16); }
KOKKOS_FUNCTION inline float high(std::uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000u); }
KOKKOS_FUNCTION inline std::uint32_t pair_of(float first, float second) {
  std::uint32_t pair = 0;
  KOKKOS_IF_ON_DEVICE((asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));))
  KOKKOS_IF_ON_HOST((pair = bf16(first).bits | std::uint32_t(bf16(second).bits) << 16;))
  return pair;
}

// Four 8 x 8 matrices from rows that lanes point to: place(8 m + r) is where row r of matrix m lies, which becomes register m.
template <bool kTransposed, int kWidth, class Place>
KOKKOS_FUNCTION void load_matrices([[maybe_unused]] const Warp& warp, const Tile<kWidth>& tile, const Place& place,
                                   Operand<4>& to) {
  if constexpr (kOnGpu) {
    KOKKOS_IF_ON_DEVICE((
        const auto from = std::uint32_t(__cvta_generic_to_shared(tile.base)) + std::uint32_t(place(warp.lane(0)) * 2);
        if constexpr (kTransposed) {
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(to[0][0]), "=r"(to[0][1]), "=r"(to[0][2]), "=r"(to[0][3])
                       : "r"(from)
                       : "memory");
        } else {
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(to[0][0]), "=r"(to[0][1]), "=r"(to[0][2]), "=r"(to[0][3])
                       : "r"(from)
                       : "memory");
        }))
  } else {
    for (int m = 0; m < 4; ++m)
      for (int l = 0; l < kOwnLanes; ++l) {
        const int i = l / 4, j = l % 4 * 2;
        const auto at = [&](int row, int column) { return tile.base[place(8 * m + row) + column]; };
        const bf16 a = kTransposed ? at(j, i) : at(i, j), b = kTransposed ? at(j + 1, i) : at(i, j + 1);
        to[l][m] = a.bits | std::uint32_t(b.bits) << 16;
      }
  }
}

// sums (block n) += A [16, 16] B [16, 8]; B's registers are two of four, from `first`.
template <int kBlocks>
KOKKOS_FUNCTION void multiply(const Operand<4>& a, const Operand<4>& b, int first, Sums<kBlocks>& sums, int n) {
  if constexpr (kOnGpu) {
    KOKKOS_IF_ON_DEVICE(
        (asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                      "{%8, %9}, {%0, %1, %2, %3};"
                      : "+f"(sums[0][n][0]), "+f"(sums[0][n][1]), "+f"(sums[0][n][2]), "+f"(sums[0][n][3])
                      : "r"(a[0][0]), "r"(a[0][1]), "r"(a[0][2]), "r"(a[0][3]), "r"(b[0][first]),
                        "r"(b[0][first + 1]));))
  } else {
    float left[16][16], right[16][8];
    for (int l = 0; l < kOwnLanes; ++l) {
      const int i = l / 4, j = l % 4 * 2;
      for (int r = 0; r < 4; ++r) {
        left[i + r % 2 * 8][j + r / 2 * 8] = low(a[l][r]);
        left[i + r % 2 * 8][j + r / 2 * 8 + 1] = high(a[l][r]);
      }
      for (int r = 0; r < 2; ++r) {
        right[j + r * 8][i] = low(b[l][first + r]);
        right[j + r * 8 + 1][i] = high(b[l][first + r]);
      }
    }
    for (int l = 0; l < kOwnLanes; ++l)
      for (int e = 0; e < 4; ++e) {
        float& sum = sums[l][n][e];
        for (int k = 0; k < 16; ++k) sum += left[l / 4 + e / 2 * 8][k] * right[k][l % 4 * 2 + e % 2];
      }
  }
}

template <int kBlocks>
KOKKOS_FUNCTION void clear(Sums<kBlocks>& sums) {
  for (int o = 0; o < kOwnLanes; ++o) {
    MYLOS_UNROLLED
    for (int n = 0; n < kBlocks; ++n)
      for (int e = 0; e < 4; ++e) sums[o][n][e] = 0.0f;
  }
}

// Pairs of blocks (16 columns) of which something is seen: first <= pair < end.
struct Pairs {
  int first, end;
  KOKKOS_FUNCTION bool has(int pair) const { return pair >= first && pair < end; }
  KOKKOS_FUNCTION bool any(int of) const { return (first > 0 ? first : 0) < (end < of ? end : of); }
};

// sums [16, 8 kBlocks] = the warp's rows of `left` times rows of `right` from `row`, over all columns; pairs that are not
// asked for stay zero.
template <int kBlocks, int kWidth>
KOKKOS_FUNCTION void multiply_rows(const Warp& warp, const Tile<kWidth>& left, const Tile<kWidth>& right, int row,
                                   const Pairs& pairs, Sums<kBlocks>& sums) {
  clear<kBlocks>(sums);
  MYLOS_UNROLLED
  for (int k = 0; k < kWidth / 16; ++k) {
    Operand<4> a, b;
    load_matrices<false>(
        warp, left, [&](int l) { return left.place(warp.row() + l % 16, 2 * k + l / 16); }, a);
    MYLOS_UNROLLED
    for (int pair = 0; pair < kBlocks / 2; ++pair) {
      if (!pairs.has(pair)) continue;
      load_matrices<false>(
          warp, right, [&](int l) { return right.place(row + 16 * pair + l % 8 + l / 16 * 8, 2 * k + l / 8 % 2); }, b);
      multiply<kBlocks>(a, b, 0, sums, 2 * pair);
      multiply<kBlocks>(a, b, 2, sums, 2 * pair + 1);
    }
  }
}

// sums [16, kWidth] += weights [16, 8 kBlocks] times rows of `right` from `row`.
template <int kBlocks, int kWidth>
KOKKOS_FUNCTION void add_rows(const Warp& warp, const Sums<kBlocks>& weights, const Tile<kWidth>& right, int row,
                              const Pairs& pairs, Sums<kWidth / 8>& sums) {
  MYLOS_UNROLLED
  for (int pair = 0; pair < kBlocks / 2; ++pair) {
    if (!pairs.has(pair)) continue;
    Operand<4> a, b;
    for (int o = 0; o < kOwnLanes; ++o) {
      const float *const x = weights[o][2 * pair], *const y = weights[o][2 * pair + 1];
      a[o][0] = pair_of(x[0], x[1]), a[o][1] = pair_of(x[2], x[3]);
      a[o][2] = pair_of(y[0], y[1]), a[o][3] = pair_of(y[2], y[3]);
    }
    MYLOS_UNROLLED
    for (int c = 0; c < kWidth / 16; ++c) {
      load_matrices<true>(
          warp, right, [&](int l) { return right.place(row + 16 * pair + l % 16, 2 * c + l / 16); }, b);
      multiply<kWidth / 8>(a, b, 0, sums, 2 * c);
      multiply<kWidth / 8>(a, b, 2, sums, 2 * c + 1);
    }
  }
}

// x of each lane becomes that of its row: of the four lanes that share it.
template <class Join>
KOKKOS_FUNCTION void join_row(float (&x)[kOwnLanes], const Join& join) {
  if constexpr (kOnGpu) {
    KOKKOS_IF_ON_DEVICE((x[0] = join(x[0], __shfl_xor_sync(0xFFFFFFFFu, x[0], 1));
                         x[0] = join(x[0], __shfl_xor_sync(0xFFFFFFFFu, x[0], 2));))
  } else {
    for (int l = 0; l < kOwnLanes; l += 4) {
      const float of_row = join(join(x[l], x[l + 1]), join(x[l + 2], x[l + 3]));
      for (int i = 0; i < 4; ++i) x[l + i] = of_row;
    }
  }
}

}  // namespace mylos::kernels::attention::tiles
