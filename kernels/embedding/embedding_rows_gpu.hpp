// The embedding's kernels on a GPU. Rows of a table lie anywhere, so memory is fast only with many of them under way: a
// thread has several packs of a row, or several rows, loaded before it uses the first.
#pragma once

#include "base/error.hpp"
#include "kernels/detail/async_copy.hpp"
#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels::device {

// kPacks packs a thread, neighbouring threads side by side. Whole packs only.
template <class T, int W, int kPacks, bool kOnce>
struct GatherRows {
  const T* table;
  const std::int32_t* tokens;
  T* out;
  std::int64_t packs, threads_per_row;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t row = quotient(item, threads_per_row), first = item - row * threads_per_row;
    const T* const from = table + std::int64_t(tokens[row]) * packs * W;
    T* const to = out + row * packs * W;
    Words<W, T> words[kPacks];
    for (int k = 0; k < kPacks; ++k)
      if (first + k * threads_per_row < packs) words[k] = load_words<W>(from + (first + k * threads_per_row) * W);
    for (int k = 0; k < kPacks; ++k)
      if (first + k * threads_per_row < packs) store_pack(to + (first + k * threads_per_row) * W, words[k]);
  }
  static KOKKOS_FUNCTION void store_pack(T* to, const Words<W, T>& words) {
    if constexpr (kOnce) {
      KOKKOS_IF_ON_DEVICE(
          (__stcs(reinterpret_cast<uint4*>(to), make_uint4(words.v[0], words.v[1], words.v[2], words.v[3]));))
    } else {
      store_words(to, words);
    }
  }
};

template <class T, int kPacks, bool kOnce = false>
void gather_rows(const Exec& exec, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  constexpr int W = pack_width<T>;
  const std::int64_t packs = table.extent(1) / W, threads = (packs + kPacks - 1) / kPacks;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(
      "mylos::embedding::forward", Policy(exec, 0, tokens.extent(0) * threads),
      GatherRows<T, W, kPacks, kOnce>{table.as<T>(), tokens.as<std::int32_t>(), out.as<T>(), packs, threads});
}

template <int W>
MYLOS_FUNCTION void add(const Floats<W>& x, Floats<W>& sums) {
  for (int k = 0; k < W; ++k) sums.v[k] += x.v[k];
}

// dtable += the rows of dout, each token's in the order of positions. Teams take work as they get done with other work:
// first the tokens that occur often, by slices of 128 bytes with many rows under way in scratch memory, because the sum of
// the most frequent one is the longest chain of all; then those that occur several times, by tiles of a pack a thread; then
// whole rows of those that occur once.
template <class T, class D, int W, int kTeams>
struct AddRows {
  static constexpr int kTeam = 128;
  static constexpr bool kSliced = W > 1;  // else often is as several
  static constexpr int kSliceBytes = 128, kSlice = kSliced ? kSliceBytes / int(sizeof(T)) : kTeam;  // columns
  static constexpr int kPieces = kSliceBytes / 16, kStepRows = kTeam / kPieces, kSteps = 12;
  static constexpr int kStepBytes = kStepRows * kSliceBytes, kRing = kSliced ? kSteps * kStepBytes : 0;
  static constexpr int kLaneWidth = kSlice / 32, kTile = kTeam * W;
  static constexpr int kWords = W * int(sizeof(T)) > 4 ? W *int(sizeof(T)) / 4 : 1,
                       kRows = kWords > 4   ? 2
                               : kTeams > 4 ? 4
                                            : 8;  // what registers hold
  static constexpr int kPacks = sizeof(T) + sizeof(D) == 4 ? 4 : 2;
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kTeam, kTeams>>;
  using Member = typename Policy::member_type;

  TokenGroups by;
  const T* dout;
  D* dtable;
  int width, slices, tiles;

  // One thing for a team to do; part is kNone behind the last, and kWhole where it is the whole row.
  static constexpr int kNone = -1, kWhole = INT32_MAX;
  struct Work {
    TokenGroup group;
    int part;
  };
  struct Desk {
    Work work[2];  // in turn
    TokenGroups::Counts counts;
  };

  static constexpr int kScratch = kRing + int(sizeof(Desk));
  // A launch that a multiprocessor has not kTeams times room for is refused: 228 KB, of which a team takes 1 KB and 8 B a
  // thread besides.
  static_assert(kTeams * (kScratch + 1024 + 64 + 8 * kTeam) <= 228 * 1024);

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const int rank = team.team_rank();
    char* const scratch = static_cast<char*>(team.team_scratch(0).get_shmem_aligned(+kScratch, 16));
    Desk& desk = *reinterpret_cast<Desk*>(scratch + kRing);
    const std::uint64_t teams = std::uint64_t(team.league_size());
    std::uint64_t coming = std::uint64_t(team.league_rank()) + teams;
    if (rank == 0) {
      desk.counts = *by.counts;
      look_up(desk.counts, coming - teams, desk.work[0]);
    }
    int turn = 0;
    for (;;) {
      detail::wait_for_groups<0>();
      team.team_barrier();
      const Work& now = desk.work[turn];
      if (now.part == kNone) return;
      turn = 1 - turn;
      // What comes next is looked up, and what comes after that claimed, behind the work's back.
      if (rank == 0) {
        look_up(desk.counts, coming, desk.work[turn]);
        coming = 2 * teams + Kokkos::atomic_fetch_add(&by.counts->claimed, 1ull);
      }
      if (now.part == kWhole) {
        add_once(now.group, rank);
      } else if (kSliced && now.group.count > TokenGroups::kSeveral) {
        if constexpr (kSliced) add_often(team, scratch, now.group, rank, now.part * kSlice);
      } else {
        add_several(now.group, rank, now.part * kTile + rank * W);
      }
    }
  }

 private:
  KOKKOS_FUNCTION void look_up(const TokenGroups::Counts& n, std::uint64_t i, Work& to) const {
    const std::uint64_t often = std::uint64_t(n.often) * slices, several = std::uint64_t(n.several) * tiles;
    const TokenGroup* from = nullptr;
    if (i < often) {
      to.part = int(quotient(std::int64_t(i), n.often));
      from = by.often + (i - std::uint64_t(to.part) * n.often);
    } else if (i - often < several) {
      const std::int64_t group = quotient(std::int64_t(i - often), tiles);
      to.part = int(i - often - group * tiles);
      from = by.several_end - 1 - group;
    } else if (i - often - several < std::uint64_t(n.once)) {
      to.part = kWhole;
      from = by.once + (i - often - several);
    } else {
      to.part = kNone;
    }
    if (from != nullptr) detail::start_copy(&to.group, from);
    detail::end_group();
  }
  static KOKKOS_FUNCTION std::int32_t of_lane([[maybe_unused]] std::int32_t x, [[maybe_unused]] int lane) {
    KOKKOS_IF_ON_DEVICE((return __shfl_sync(0xffffffffu, x, lane);))
    KOKKOS_IF_ON_HOST((return x;))
  }

  // All threads copy, kPieces of them a row; the first warp adds.
  KOKKOS_FUNCTION void add_often(const Member& team, char* ring, const TokenGroup& group, int rank, int column) const {
    const std::int32_t* const order = by.order + group.start;
    const int count = group.count, piece = rank % kPieces, of_step = rank / kPieces,
              copied = column + piece * (16 / int(sizeof(T))), added = column + rank % 32 * kLaneWidth;
    const bool copies = copied < width, adds = rank < 32 && added < width;
    const T* const from = dout + copied;
    D* const to = dtable + std::int64_t(group.token) * width + added;
    Floats<kLaneWidth> before{}, sums{};
    if (adds) before = load<kLaneWidth>(to);

    // Step s is started kSteps - 1 steps before it is added; its positions are looked up a step earlier.
    int coming = of_step;
    std::int32_t position = order[coming < count ? coming : 0];
    char* slot = ring + rank * 16;
    const auto start_step = [&] {
      const int after = coming + kStepRows;
      const std::int32_t next = order[after < count ? after : 0];
      if (copies && coming < count) detail::start_copy(slot, from + std::int64_t(position) * width);
      detail::end_group();
      position = next;
      coming = after;
      slot = slot + kStepBytes < ring + kRing ? slot + kStepBytes : ring + rank * 16;
    };
    for (int step = 0; step < kSteps - 1; ++step) start_step();
    const char* row = ring + rank % 32 * 4;
    for (int begin = 0; begin < count; begin += kStepRows) {
      detail::wait_for_groups<kSteps - 2>();
      team.team_barrier();  // the step has arrived, and the one before has been added
      start_step();
      if (rank < 32) add_step(row, count - begin, sums);
      row = row + kStepBytes < ring + kRing ? row + kStepBytes : ring + rank % 32 * 4;
    }
    detail::wait_for_groups<0>();
    if (!adds) return;
    add(sums, before);
    store(to, before);
  }
  static KOKKOS_FUNCTION void add_step(const char* row, int left, Floats<kLaneWidth>& sums) {
    Words<kLaneWidth, T> words[kStepRows];
    for (int j = 0; j < kStepRows; ++j)
      words[j] = load_words<kLaneWidth>(reinterpret_cast<const T*>(row + j * kSliceBytes));
    if (left >= kStepRows) {
      for (int j = 0; j < kStepRows; ++j) add(to_floats(words[j]), sums);
    } else {
      for (int j = 0; j < kStepRows; ++j)
        if (j < left) add(to_floats(words[j]), sums);
    }
  }

  // Lanes look up positions for each other, so those beyond the last column stay.
  KOKKOS_FUNCTION void add_several(const TokenGroup& group, int rank, int c) const {
    const std::int32_t* const order = by.order + group.start;
    const bool inside = c < width;
    D* const to = dtable + std::int64_t(group.token) * width + c;
    Words<W, D> before{};
    if (inside) before = load_words<W>(to);
    Floats<W> sums{};
    for (int begin = 0; begin < group.count; begin += 32) {
      const int left = group.count - begin < 32 ? group.count - begin : 32, lane = rank % 32;
      const std::int32_t position = order[begin + (lane < left ? lane : 0)];
      for (int e = 0; e < left; e += kRows) {
        Words<W, T> row[kRows];
        for (int j = 0; j < kRows; ++j) {
          const std::int32_t p = of_lane(position, e + j);
          if (inside && e + j < left) row[j] = load_words<W>(dout + std::int64_t(p) * width + c);
        }
        for (int j = 0; j < kRows; ++j)
          if (inside && e + j < left) add(to_floats(row[j]), sums);
      }
    }
    if (!inside) return;
    Floats<W> total = to_floats(before);
    add(sums, total);
    store(to, total);
  }

  KOKKOS_FUNCTION void add_once(const TokenGroup& group, int rank) const {
    const T* const from = dout + std::int64_t(group.first) * width;
    D* const to = dtable + std::int64_t(group.token) * width;
    for (int c = rank * W; c < width; c += kPacks * kTile) add_once(from + c, to + c, width - c);
  }
  // Packs of a row kTeam apart, of which `left` elements are inside.
  static KOKKOS_FUNCTION void add_once(const T* from, D* to, int left) {
    Words<W, D> before[kPacks];
    Words<W, T> row[kPacks];
    for (int k = 0; k < kPacks; ++k)
      if (k * kTile < left) {
        row[k] = load_words<W>(from + k * kTile);
        before[k] = load_words<W>(to + k * kTile);
      }
    for (int k = 0; k < kPacks; ++k)
      if (k * kTile < left) {
        Floats<W> sum{}, total = to_floats(before[k]);
        add(to_floats(row[k]), sum);
        add(sum, total);
        store(to + k * kTile, total);
      }
  }
};

inline int multiprocessors([[maybe_unused]] const Exec& exec) {
#if defined(KOKKOS_ENABLE_CUDA)
  return exec.cuda_device_prop().multiProcessorCount;
#else
  return 1;
#endif
}

template <class T, class D, int W, int kTeams = sizeof(T) + sizeof(D) == 4 ? 6 : 5>
void add_rows(const Exec& exec, const TokenGroups& by, const Tensor& dout, const Tensor& dtable) {
  using Op = AddRows<T, D, W, kTeams>;
  const std::int64_t width = dtable.extent(1);
  check_plain(width < (std::int64_t(1) << 30), "embedding_backward: rows of dout are too wide");
  const auto parts = [&](int of) { return int((width + of - 1) / of); };
  Kokkos::parallel_for("mylos::embedding::backward",
                       typename Op::Policy(exec, multiprocessors(exec) * kTeams, Op::kTeam)
                           .set_scratch_size(0, Kokkos::PerTeam(Op::kScratch + 16)),
                       Op{by, dout.as<T>(), dtable.as<D>(), int(width), parts(Op::kSlice), parts(Op::kTile)});
}

}  // namespace mylos::kernels::device
