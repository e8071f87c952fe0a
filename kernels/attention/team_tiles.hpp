// The team-level pieces of the portable attention kernels: 64 x 64 tiles of scores, worked on by 256 places.
//
// Place (ty, tx) of 16 x 16 owns the elements (ty + 16 i, tx + 16 j) in registers. A team has 256 threads on a GPU, one
// place each, and one thread on a CPU that walks all places: the same source and the same sums, so that what tests hold
// on a CPU is what runs on a GPU. Operands pass through scratch in chunks of 32 columns; the row pitch of 33 keeps the
// 16 rows that a warp reads in different memory banks, and all scratch stays below the 48 KiB that a GPU gives without
// asking.
#pragma once

#include "tensor/detail/exec.hpp"

#define MYLOS_PRAGMA(text) _Pragma(#text)
#if defined(__CUDA_ARCH__)
#define MYLOS_UNROLL(n) MYLOS_PRAGMA(unroll n)
#else
#define MYLOS_UNROLL(n) MYLOS_PRAGMA(GCC unroll n)
#endif

namespace mylos::kernels::attention::portable {

inline constexpr int kTile = 64;
inline constexpr int kChunk = 32;
inline constexpr int kPitch = kChunk + 1;
inline constexpr int kScorePitch = kTile + 1;
inline constexpr int kPlaces = 256;
inline constexpr int kThreads = kOnGpu ? kPlaces : 1;
inline constexpr int kOwn = kPlaces / kThreads;       // places of a thread
inline constexpr int kScratchLevel = kOnGpu ? 0 : 1;  // Kokkos' level 0 ends at 32 KiB on a CPU

using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, 1>>;
using Team = Policy::member_type;

// Up to 64 rows of a strided matrix; rows beyond `count` and columns beyond `width` read as zero.
template <class T>
struct Rows {
  const T* base;
  std::int64_t stride;
  int count, width;
};

template <class T>
KOKKOS_FUNCTION void load_chunk(const Team& team, const Rows<T>& rows, int column, float* to) {
  for (int e = team.team_rank(); e < kTile * kChunk; e += kThreads) {
    const int r = e / kChunk, c = e % kChunk;
    to[r * kPitch + c] =
        r < rows.count && column + c < rows.width ? float(rows.base[r * rows.stride + column + c]) : 0.0f;
  }
}

using Scores = float[kOwn][4][4];

// s = X Y^T over all columns. Begins and ends with a barrier, so x and y are free to be written on return.
template <class T>
KOKKOS_FUNCTION void score_product(const Team& team, const Rows<T>& left, const Rows<T>& right, float* x, float* y,
                                   Scores& s) {
  for (int o = 0; o < kOwn; ++o)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) s[o][i][j] = 0.0f;
  for (int column = 0; column < left.width; column += kChunk) {
    team.team_barrier();
    load_chunk(team, left, column, x);
    load_chunk(team, right, column, y);
    team.team_barrier();
    for (int o = 0; o < kOwn; ++o) {
      const int place = team.team_rank() + o * kThreads, ty = place / 16, tx = place % 16;
      MYLOS_UNROLL(8)
      for (int c = 0; c < kChunk; ++c) {
        float a[4], b[4];
        for (int i = 0; i < 4; ++i) a[i] = x[(ty + 16 * i) * kPitch + c];
        for (int j = 0; j < 4; ++j) b[j] = y[(tx + 16 * j) * kPitch + c];
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j) s[o][i][j] += a[i] * b[j];
      }
    }
  }
  team.team_barrier();
}

template <int kWidth>
using Sums = float[kOwn][4][kWidth / 16];

template <int kWidth>
KOKKOS_FUNCTION void clear(Sums<kWidth>& sums) {
  for (int o = 0; o < kOwn; ++o)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < kWidth / 16; ++j) sums[o][i][j] = 0.0f;
}

// sums [64, kWidth] += M R, where M is the 64 x 64 tile in scratch: element (i, k) at m[i * row + k * step].
// Ends with a barrier: m and x are free to be written on return.
template <int kWidth, class T>
KOKKOS_FUNCTION void add_product(const Team& team, const float* m, int row, int step, const Rows<T>& rows, float* x,
                                 Sums<kWidth>& sums) {
  MYLOS_UNROLL(8)
  for (int chunk = 0; chunk < kWidth / kChunk; ++chunk) {
    if (chunk * kChunk >= rows.width) continue;
    load_chunk(team, rows, chunk * kChunk, x);
    team.team_barrier();
    for (int o = 0; o < kOwn; ++o) {
      const int place = team.team_rank() + o * kThreads, ty = place / 16, tx = place % 16;
      MYLOS_UNROLL(4)
      for (int k = 0; k < kTile; ++k) {
        float b[2];
        for (int j = 0; j < 2; ++j) b[j] = x[k * kPitch + tx + 16 * j];
        for (int i = 0; i < 4; ++i) {
          const float a = m[(ty + 16 * i) * row + k * step];
          for (int j = 0; j < 2; ++j) sums[o][i][2 * chunk + j] += a * b[j];
        }
      }
    }
    team.team_barrier();
  }
}

// Rows of sums times a factor by row, to memory.
template <int kWidth, class T, class Factor>
KOKKOS_FUNCTION void write_sums(const Team& team, const Sums<kWidth>& sums, T* base, std::int64_t stride, int count,
                                int width, const Factor& factor) {
  for (int o = 0; o < kOwn; ++o) {
    const int place = team.team_rank() + o * kThreads, ty = place / 16, tx = place % 16;
    for (int i = 0; i < 4; ++i) {
      const int r = ty + 16 * i;
      if (r >= count) continue;
      const float f = factor(r);
      MYLOS_UNROLL(16)
      for (int j = 0; j < kWidth / 16; ++j) {
        const int c = tx + 16 * j;
        if (c < width) base[r * stride + c] = T(sums[o][i][j] * f);
      }
    }
  }
}

}  // namespace mylos::kernels::attention::portable
