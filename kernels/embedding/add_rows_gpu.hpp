// The embedding's gradient on a GPU. Rows lie anywhere, so memory is fast only with many of them under way: a thread has several
// packs of a row, or several rows, loaded before it uses the first.
//
// dtable += the rows of dout. A token that occurs a few times is a team's. What a text repeats most makes up half of it, so a frequent
// token's blocks of positions are shared out, and the columns of a block, too: their fp32 sums meet in memory, and whoever
// comes last adds them up in their order.
#pragma once

#include "base/error.hpp"
#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/token_groups.hpp"

namespace mylos::kernels::device {

template <class T, class D, int W, int threads>
struct AddRows {
  static constexpr int kTeam = threads, kColumns = W == 1 ? 1 : 4, kTile = kTeam * kColumns;
  static constexpr int kBlock = TokenGroups::kBlock, kAhead = 8;  // rows under way, of a block
  static constexpr int kPacks = threads == 128 && sizeof(T) + sizeof(D) == 4 ? 4 : 2,
                       kRows = kPacks;  // what registers hold
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kTeam, threads == 128 ? 7 : 4>>;
  using Member = typename Policy::member_type;
  static_assert(kBlock == 64 && 32 % kAhead == 0);

  TokenGroups by;
  const T* dout;
  D* dtable;
  float* sums_of_blocks;  // [slots, stride]
  int width, stride, tiles;

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const int rank = team.team_rank(), teams = team.league_size(), me = team.league_rank();
    const TokenCounts counts = *by.counts;
    // Up to half of the teams have blocks. Of 2^30 tokens, items are less than 2^31.
    const int items = counts.blocks * tiles, with_blocks = items < teams / 2 ? items : teams / 2;
    if (me < with_blocks) {
      for (int i = me; i < items; i += with_blocks) {
        const int block = i / tiles;
        add_block(team, by.blocks[block], rank, i - block * tiles);
      }
    } else {
      const int step = teams - with_blocks;
      int g = me - with_blocks;
      TokenGroup group = by.groups[g < counts.groups ? g : 0];
      for (; g < counts.groups; g += step) {
        const TokenGroup next = by.groups[g + step < counts.groups ? g + step : 0];
        add_few(group, rank);
        group = next;
      }
    }
  }

 private:
  template <int n>
  static MYLOS_FUNCTION void add(const Floats<n>& x, Floats<n>& sums) {
    for (int k = 0; k < n; ++k) sums.v[k] += x.v[k];
  }
  static KOKKOS_FUNCTION std::int32_t of_lane([[maybe_unused]] std::int32_t x, [[maybe_unused]] int lane) {
    KOKKOS_IF_ON_DEVICE((return __shfl_sync(0xffffffffu, x, lane);))
    KOKKOS_IF_ON_HOST((return x;))
  }

  // Row r.
  template <class E>
  MYLOS_FUNCTION E* at(E* rows, std::int32_t r) const {
    return rows + std::uint64_t(std::uint32_t(r)) * std::uint32_t(width);
  }

  // A thread beyond the last column does what the first column's does, but for the end.
  KOKKOS_FUNCTION void add_block(const Member& team, const TokenBlock& b, int rank, int tile) const {
    std::int32_t position[kBlock / 32];
    for (int k = 0; k < kBlock / 32; ++k) {
      const int e = k * 32 + rank % 32;
      position[k] = by.order[b.start + (e < b.rows ? e : 0)];
    }
    for (int begin = tile * kTile; begin < width; begin += tiles * kTile) {
      const bool inside = begin + rank * kColumns < width;
      const int c = inside ? begin + rank * kColumns : 0;
      D* const to = at(dtable, b.token) + c;
      Words<kColumns, D> before{};
      if (b.slot < 0) before = load_words<kColumns>(to);
      Floats<kColumns> sums{};
      for (int first = 0; first < b.rows; first += kAhead) {
        const std::int32_t places = first < 32 ? position[0] : position[1];
        Words<kColumns, T> row[kAhead] = {};  // adding zeros leaves the sums as they are
        for (int j = 0; j < kAhead; ++j) {
          const std::int32_t p = of_lane(places, first % 32 + j);
          if (first + j < b.rows) row[j] = load_words<kColumns>(at(dout, p) + c);
        }
        for (int j = 0; j < kAhead; ++j) add(to_floats(row[j]), sums);
      }
      if (!inside) continue;
      if (b.slot < 0) {
        Floats<kColumns> total = to_floats(before);
        add(sums, total);
        store(to, total);
      } else {
        store(sums_of_blocks + std::int64_t(b.slot + b.index) * stride + c, sums);
      }
    }
    if (b.slot >= 0 && is_last(team, by.arrivals + b.slot * TokenGroups::kTiles + tile, b.blocks))
      add_blocks(b, rank, tile);
  }
  // Whether all other teams with blocks of this token and tile have stored their sums, which are then visible.
  static KOKKOS_FUNCTION bool is_last([[maybe_unused]] const Member& team, [[maybe_unused]] std::int32_t* arrivals,
                                      [[maybe_unused]] std::int32_t blocks) {
    KOKKOS_IF_ON_DEVICE((__threadfence(); __syncthreads(); int last = 0; if (team.team_rank() == 0) {
      last = atomicAdd(arrivals, 1) == blocks - 1;
      if (last) *arrivals = 0;  // for whoever uses the groups next
      __threadfence();
    } return __syncthreads_or(last) != 0;))
    KOKKOS_IF_ON_HOST((return true;))
  }
  KOKKOS_FUNCTION void add_blocks(const TokenBlock& b, int rank, int tile) const {
    for (int c = tile * kTile + rank * kColumns; c < width; c += tiles * kTile) {
      D* const to = at(dtable, b.token) + c;
      const Words<kColumns, D> before = load_words<kColumns>(to);
      const float* from = sums_of_blocks + std::int64_t(b.slot) * stride + c;
      Floats<kColumns> sums{};
      for (int i = 0; i < b.blocks; ++i, from += stride) add(load_shared(from), sums);
      Floats<kColumns> total = to_floats(before);
      add(sums, total);
      store(to, total);
    }
  }
  // What another multiprocessor wrote in this launch: from the L2 cache.
  static KOKKOS_FUNCTION Floats<kColumns> load_shared(const float* p) {
    Floats<kColumns> r;
    if constexpr (kColumns == 1) {
      KOKKOS_IF_ON_DEVICE((r.v[0] = __ldcg(p);))
      KOKKOS_IF_ON_HOST((r.v[0] = *p;))
    } else {
      KOKKOS_IF_ON_DEVICE((const float4 x = __ldcg(reinterpret_cast<const float4*>(p)); r.v[0] = x.x; r.v[1] = x.y;
                           r.v[2] = x.z; r.v[3] = x.w;))
      KOKKOS_IF_ON_HOST((r = load<kColumns>(p);))
    }
    return r;
  }
  KOKKOS_FUNCTION void add_few(const TokenGroup& group, int rank) const {
    D* const to = at(dtable, group.token);
    if (group.count == 1) {
      const T* const from = at(dout, group.first);
      for (int c = rank * W; c < width; c += kPacks * kTeam * W) add_one(from + c, to + c, width - c);
    } else {
      for (int c = rank * W; c < width; c += kTeam * W) add_few(group, to + c, c);
    }
  }
  // Packs of a row kTeam apart, of which `left` elements are inside.
  static KOKKOS_FUNCTION void add_one(const T* from, D* to, int left) {
    constexpr int kStep = kTeam * W;
    Words<W, D> before[kPacks];
    Words<W, T> row[kPacks];
    for (int k = 0; k < kPacks; ++k)
      if (k * kStep < left) {
        row[k] = load_words<W>(from + k * kStep);
        before[k] = load_words<W>(to + k * kStep);
      }
    for (int k = 0; k < kPacks; ++k)
      if (k * kStep < left) {
        Floats<W> sum{}, total = to_floats(before[k]);
        add(to_floats(row[k]), sum);
        add(sum, total);
        store(to + k * kStep, total);
      }
  }
  KOKKOS_FUNCTION void add_few(const TokenGroup& group, D* to, int c) const {
    const std::int32_t* const order = by.order + group.start;
    const Words<W, D> before = load_words<W>(to);
    Floats<W> sums{};
    for (std::int32_t e = 0; e < group.count; e += kRows) {
      Words<W, T> row[kRows];
      for (int j = 0; j < kRows; ++j)
        if (e + j < group.count) row[j] = load_words<W>(at(dout, order[e + j]) + c);
      for (int j = 0; j < kRows; ++j)
        if (e + j < group.count) add(to_floats(row[j]), sums);
    }
    Floats<W> total = to_floats(before);
    add(sums, total);
    store(to, total);
  }
};

// sums_of_blocks: TokenGroups::slots_for(tokens) rows of columns_of_sums(width).
inline std::int64_t columns_of_sums(std::int64_t width) { return (width + 3) / 4 * 4; }

template <class T, class D, int W, int threads>
void add_rows_by(const Exec& exec, const TokenGroups& by, std::int64_t tokens, const Tensor& dout,
                 float* sums_of_blocks, const Tensor& dtable) {
  using Op = AddRows<T, D, W, threads>;
  constexpr std::int64_t kMostTeams = 8192;
  const std::int64_t width = dtable.extent(1),
                     tiles = std::min<std::int64_t>((width + Op::kTile - 1) / Op::kTile, TokenGroups::kTiles);
  check_plain(width < (std::int64_t(1) << 30),
              "embedding_backward: rows of dout are too wide; at most 2^30 - 1 columns");
  Kokkos::parallel_for(
      "mylos::embedding::backward", typename Op::Policy(exec, int(std::min(tokens, kMostTeams)), Op::kTeam),
      Op{by, dout.as<T>(), dtable.as<D>(), sums_of_blocks, int(width), int(columns_of_sums(width)), int(tiles)});
}

// Rows that give 256 threads two packs each are theirs: all words seldom, 100 us instead of 102 for 16,384 x 4,096 (H200); by Zipf's law alike.
template <class T, class D, int W>
void add_rows(const Exec& exec, const TokenGroups& by, std::int64_t tokens, const Tensor& dout, float* sums_of_blocks,
              const Tensor& dtable) {
  if constexpr (W > 1)
    if (dtable.extent(1) >= 2 * 256 * W)
      return add_rows_by<T, D, W, 256>(exec, by, tokens, dout, sums_of_blocks, dtable);
  add_rows_by<T, D, W, 128>(exec, by, tokens, dout, sums_of_blocks, dtable);
}

}  // namespace mylos::kernels::device
