// What the tensor-core kernels of attention share: where their operands lie, tiles on their way to scratch memory, which
// keys a query sees, and the way of results to memory.
#pragma once

#include <cmath>

#include "base/error.hpp"
#include "kernels/attention/providers.hpp"
#include "kernels/attention/warp_tiles.hpp"
#include "kernels/detail/async_copy.hpp"

namespace mylos::kernels::attention::tiles {

inline constexpr float kLog2e = 1.44269504f;
// On a CPU a document's tile needs more than the 32 KiB of Kokkos' level 0.
inline constexpr int kScratchLevel = kOnGpu ? 0 : 1;

// f(j) with j rising, for the 16-byte pieces of a tile that are this thread's.
template <int kWidth, class Team, class F>
KOKKOS_FUNCTION void each_piece(const Team& team, const F& f) {
  MYLOS_UNROLLED
  for (int e = 0; e < kTile * Tile<kWidth>::kPieces / kThreads; ++e) {
    const int at = team.team_rank() + e * kThreads;
    f(at / Tile<kWidth>::kPieces, at % Tile<kWidth>::kPieces);
  }
}

struct alignas(16) Piece {
  std::uint32_t words[4];
};

template <int kWidth>
struct Problem {
  Arguments a;
  int tiles, group;
  float scale;
  float* delta;  // [B, H, S]

  explicit Problem(const Arguments& arguments)
      : a(arguments),
        tiles(int((a.shape.sequence + kTile - 1) / kTile)),
        group(int(a.shape.heads / a.shape.kv_heads)),
        scale(float(1.0 / std::sqrt(double(kWidth)))),
        delta(static_cast<float*>(a.workspace)) {}

  KOKKOS_FUNCTION bf16* at(const Window& w, std::int64_t batch, std::int64_t head, std::int64_t token) const {
    return static_cast<bf16*>(w.data) + batch * w.batch + head * w.head + token * w.token;
  }
  KOKKOS_FUNCTION std::int64_t line(std::int64_t batch, std::int64_t head) const {
    return (batch * a.shape.heads + head) * a.shape.sequence;
  }
  // The first key that a query sees; one behind the sequence sees itself alone.
  KOKKOS_FUNCTION int start(std::int64_t batch, std::int64_t query) const {
    if (query >= a.shape.sequence) return int(query);
    return a.document_start == nullptr ? 0 : a.document_start[batch * a.shape.sequence + query];
  }

  // Begins to copy rows of a tile; those behind the sequence become zero.
  template <class Team>
  KOKKOS_FUNCTION void copy(const Team& team, const Window& w, std::int64_t batch, std::int64_t head, std::int64_t tile,
                            const Tile<kWidth>& to) const {
    const bf16* const from = at(w, batch, head, tile * kTile);
    const std::int64_t left = a.shape.sequence - tile * kTile;
    each_piece<kWidth>(team, [&](int row, int p) {
      bf16* const piece = to.piece(row, p);
      if (row < left)
        detail::start_copy(piece, from + row * w.token + p * 8);
      else
        for (int i = 0; i < 8; ++i) piece[i] = bf16::from_bits(0);
    });
  }

  // The warp's rows to memory, by way of its rows of a tile, each times a factor.
  template <class Factor>
  KOKKOS_FUNCTION void write(const Warp& warp, const Sums<kWidth / 8>& sums, const Factor& factor,
                             const Tile<kWidth>& by, const Window& w, std::int64_t batch, std::int64_t head,
                             std::int64_t tile) const {
    warp.sync();
    for (int o = 0; o < kOwnLanes; ++o) {
      const int lane = warp.lane(o), row = warp.row() + lane / 4, column = lane % 4 * 2;
      const float upper = factor(o, 0), lower = factor(o, 1);
      MYLOS_UNROLLED
      for (int n = 0; n < kWidth / 8; ++n) {
        const float* const s = sums[o][n];
        *reinterpret_cast<std::uint32_t*>(by.piece(row, n) + column) = pair_of(s[0] * upper, s[1] * upper);
        *reinterpret_cast<std::uint32_t*>(by.piece(row + 8, n) + column) = pair_of(s[2] * lower, s[3] * lower);
      }
    }
    warp.sync();
    constexpr int kPieces = Tile<kWidth>::kPieces;
    for (int o = 0; o < kOwnLanes; ++o) {
      MYLOS_UNROLLED
      for (int e = 0; e < 16 * kPieces / 32; ++e) {
        const int place = warp.lane(o) + 32 * e, row = warp.row() + place / kPieces;
        const std::int64_t token = tile * kTile + row;
        if (token < a.shape.sequence)
          *reinterpret_cast<Piece*>(at(w, batch, head, token) + place % kPieces * 8) =
              *reinterpret_cast<const Piece*>(by.piece(row, place % kPieces));
      }
    }
  }
};

// Of a lane's two rows (l / 4, and 8 more) of the warp's, the place in the tile.
KOKKOS_FUNCTION inline int row_of(const Warp& warp, int own, int half) {
  return warp.row() + warp.lane(own) / 4 + 8 * half;
}

// Of a warp's 16 queries and a tile of keys: the pairs of blocks that any of them sees, and whether some element of these is
// hidden from its query.
struct Sight {
  Pairs pairs;
  bool partial;
};
KOKKOS_FUNCTION inline Sight sight_of_queries(int first_start, int last_start, std::int64_t query, std::int64_t key) {
  const std::int64_t before = first_start > key ? (first_start - key) / 16 : 0, reach = (query + 15 - key) / 16 + 1;
  return {{int(before < 4 ? before : 4), int(reach < 4 ? reach : 4)}, query < key + kTile - 1 || last_start > key};
}

KOKKOS_FUNCTION inline float exp2_of(float x) {
  float y = 0.0f;
  KOKKOS_IF_ON_DEVICE((asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));))
  KOKKOS_IF_ON_HOST((y = std::exp2(x);))
  return y;
}

template <class Team>
KOKKOS_FUNCTION char* scratch_of(const Team& team, int bytes) {
  constexpr int level = kScratchLevel;
  return static_cast<char*>(team.team_scratch(level).get_shmem_aligned(std::size_t(bytes), 128));
}
using Team = Kokkos::TeamPolicy<Exec>::member_type;

// kTogether: teams that a multiprocessor should have room for.
template <int kTogether, class F>
void launch(const Stream& stream, const char* label, std::int64_t teams, int bytes, const F& kernel) {
  check_plain(teams < (std::int64_t(1) << 31), "attention: more than 2^31 tiles in one call; use a smaller batch");
  Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, kTogether>> policy(exec_of(stream), int(teams), kThreads);
  if (bytes > 0) policy.set_scratch_size(kScratchLevel, Kokkos::PerTeam(bytes + 128));
  Kokkos::parallel_for(label, as_arguments(policy), kernel);
}

}  // namespace mylos::kernels::attention::tiles
