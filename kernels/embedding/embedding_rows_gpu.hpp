// The embedding's kernels on a GPU. Rows of a table lie anywhere, so memory is fast only with many of them under way: a
// thread has several packs of a row, or several rows, loaded before it uses the first.
#pragma once

#include "base/error.hpp"
#include "kernels/detail/async_copy.hpp"
#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels::device {

// kPacks packs a thread, neighbouring threads side by side. Whole packs only.
template <class T, int W, int kPacks>
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
      if (first + k * threads_per_row < packs) store_words(to + (first + k * threads_per_row) * W, words[k]);
  }
};

template <class T, int kPacks>
void gather_rows(const Exec& exec, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  constexpr int W = pack_width<T>;
  const std::int64_t packs = table.extent(1) / W, threads = (packs + kPacks - 1) / kPacks;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("mylos::embedding::forward", Policy(exec, 0, tokens.extent(0) * threads),
                       GatherRows<T, W, kPacks>{table.as<T>(), tokens.as<std::int32_t>(), out.as<T>(), packs, threads});
}

template <int W>
MYLOS_FUNCTION void add(const Floats<W>& x, Floats<W>& sums) {
  for (int k = 0; k < W; ++k) sums.v[k] += x.v[k];
}

// dtable += the rows of dout, each token's in the order of positions. The first teams have the frequent tokens of a bucket,
// two columns a thread and kAhead rows under way in scratch memory: the most frequent token of all takes longest. The others
// share a bucket's few-times tokens, W columns to a pack.
template <class T, class D, int W, int kTeams, int kShares>
struct AddRows {
  static constexpr int kTeam = 128, kFrequentWidth = W == 1 ? 1 : 2;
  static constexpr int kPiece = 8, kPieces = 6, kAhead = kPiece * kPieces;
  static constexpr int kScratch = W == 1 ? 0 : kAhead * kTeam * kFrequentWidth * int(sizeof(T));
  static constexpr int kPacks = sizeof(T) + sizeof(D) == 4 ? 4 : 2,
                       kRows = kPacks;  // what registers hold
  // A launch that a multiprocessor has not kTeams times room for is refused: 228 KB, of which a team takes 1 KB and 8 B a
  // thread more than it asks for.
  static_assert(kTeams * (kScratch + 1024 + 64 + 8 * kTeam) <= 228 * 1024);
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kTeam, kTeams>>;
  using Member = typename Policy::member_type;
  using Pair = Words<kFrequentWidth, T>;

  TokenGroups by;
  const T* dout;
  D* dtable;
  int width, tiles;

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const int rank = team.team_rank(), bucket = team.league_rank() & ((1 << by.bits) - 1),
              part = team.league_rank() >> by.bits;
    const TokenBucket b = by.buckets[bucket];
    const TokenGroup* const groups = by.groups + b.base;
    if (part < tiles) {
      Pair* const slots = static_cast<Pair*>(team.team_scratch(0).get_shmem_aligned(+kScratch, 16)) + rank;
      for (std::int32_t g = 0; g < b.frequent; ++g)
        add_frequent(slots, groups[g], rank, (part * kTeam + rank) * kFrequentWidth);
    } else {
      std::int32_t g = b.frequent + part - tiles;
      TokenGroup group = groups[g < b.all ? g : 0];
      for (; g < b.all; g += kShares) {
        const TokenGroup next = groups[g + kShares < b.all ? g + kShares : 0];
        add_few(group, rank);
        group = next;
      }
    }
  }

 private:
  static KOKKOS_FUNCTION std::int32_t of_lane([[maybe_unused]] std::int32_t x, [[maybe_unused]] int lane) {
    KOKKOS_IF_ON_DEVICE((return __shfl_sync(0xffffffffu, x, lane);))
    KOKKOS_IF_ON_HOST((return x;))
  }
  // Copies two columns to scratch memory behind the thread's back.
  static KOKKOS_FUNCTION void start_copy([[maybe_unused]] void* scratch, [[maybe_unused]] const T* memory) {
    KOKKOS_IF_ON_DEVICE((asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                                          std::uint32_t(__cvta_generic_to_shared(scratch))),
                                      "l"(memory), "n"(int(kFrequentWidth * sizeof(T)))
                                      : "memory");))
  }

  // A lane beyond the last column does what the first column's does, but for the end.
  KOKKOS_FUNCTION void add_frequent([[maybe_unused]] Pair* slots, const TokenGroup& group, [[maybe_unused]] int rank,
                                    int column) const {
    const int c = column < width ? column : 0;
    Floats<kFrequentWidth> sums{};
    if constexpr (W == 1) {
      const std::int32_t* const order = by.order + group.start;
      for (std::int32_t e = 0; e < group.count; ++e) sums.v[0] += float(dout[std::int64_t(order[e]) * width + c]);
    } else {
      sum_frequent(slots, group, rank, dout + c, sums);
    }
    if (column >= width) return;
    D* const to = dtable + std::int64_t(group.token) * width + c;
    Floats<kFrequentWidth> total = load<kFrequentWidth>(to);
    add(sums, total);
    store(to, total);
  }
  KOKKOS_FUNCTION void sum_frequent(Pair* slots, const TokenGroup& group, int rank, const T* from,
                                    Floats<kFrequentWidth>& sums) const {
    const std::int32_t* const order = by.order + group.start;
    const std::int32_t last = group.count - 1, lane = rank % kPiece;
    // kPiece rows are a group of copies, started kPieces pieces before they are added. Lanes look up the positions of the
    // piece after that one.
    std::int32_t position = order[lane], coming = 0;
    int slot = 0;
    const auto start_piece = [&] {
      const std::int32_t after = coming + kPiece + lane, next = order[after < last ? after : last];
      for (int j = 0; j < kPiece; ++j) {
        const std::int32_t p = of_lane(position, j);
        if (coming + j <= last) start_copy(slots + slot + j * kTeam, from + std::int64_t(p) * width);
      }
      detail::end_group();
      position = next;
      coming += kPiece;
      slot = slot + kPiece * kTeam < kAhead * kTeam ? slot + kPiece * kTeam : 0;
    };
    for (int piece = 0; piece < kPieces; ++piece) start_piece();
    for (std::int32_t e = 0; e <= last; e += kPiece) {
      detail::wait_for_groups<kPieces - 1>();
      for (int j = 0; j < kPiece; ++j)
        if (e + j <= last) add(load<kFrequentWidth>(reinterpret_cast<const T*>(slots + slot + j * kTeam)), sums);
      start_piece();
    }
    detail::wait_for_groups<0>();
  }

  KOKKOS_FUNCTION void add_few(const TokenGroup& group, int rank) const {
    D* const to = dtable + std::int64_t(group.token) * width;
    if (group.count == 1) {
      const T* const from = dout + std::int64_t(group.first) * width;
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
        if (e + j < group.count) row[j] = load_words<W>(dout + std::int64_t(order[e + j]) * width + c);
      for (int j = 0; j < kRows; ++j)
        if (e + j < group.count) add(to_floats(row[j]), sums);
    }
    Floats<W> total = to_floats(before);
    add(sums, total);
    store(to, total);
  }
};

template <class T, class D, int W, int kTeams = sizeof(T) == 2 ? 7 : 4, int kShares = 32>
void add_rows(const Exec& exec, const TokenGroups& by, const Tensor& dout, const Tensor& dtable) {
  using Op = AddRows<T, D, W, kTeams, kShares>;
  const std::int64_t width = dtable.extent(1), across = Op::kTeam * Op::kFrequentWidth,
                     tiles = (width + across - 1) / across;
  check_plain(((tiles + kShares) << by.bits) < (std::int64_t(1) << 31),
              "embedding_backward: rows of dout are too wide");
  Kokkos::parallel_for("mylos::embedding::backward",
                       typename Op::Policy(exec, int((tiles + kShares) << by.bits), Op::kTeam)
                           .set_scratch_size(0, Kokkos::PerTeam(Op::kScratch + 16)),
                       Op{by, dout.as<T>(), dtable.as<D>(), int(width), int(tiles)});
}

}  // namespace mylos::kernels::device
