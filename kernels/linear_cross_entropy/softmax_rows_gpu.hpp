// The softmax pass on a GPU. A row of logits is a quarter of a megabyte at 128,256 words: as much as a multiprocessor's
// scratch memory. It is read from memory once, and memory must never wait for arithmetic. So a team keeps the first part of
// its row in registers and parks the rest in scratch memory, a ring whose other slots have the loads of its next rows under
// way: whatever leaves the ring makes room for the next load. While the gradient of one row is written, the next row's sum
// is taken, batch by batch; only its end, one barrier, is left to wait for. Multiprocessors are not equally near to memory, so
// rows are not given out beforehand: when a team ends one, it has one more and takes another of those left; no earlier, so that
// teams run out of rows at about the same time. A row has the same bits in any team. The word that counts rows is 0 again at the
// end: how often teams will take from it is known when the launch begins.
#pragma once

#include <algorithm>
#include <cfloat>

#include "kernels/detail/async_copy.hpp"
#include "kernels/detail/math.hpp"
#include "kernels/detail/pack.hpp"
#include "kernels/linear_cross_entropy/running_sum_gpu.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"

namespace mylos::kernels::detail {

#if defined(KOKKOS_ENABLE_CUDA)

// As start_copy() of async_copy.hpp, with offsets in bytes that are part of the instruction.
template <int scratch_offset, int memory_offset>
KOKKOS_FUNCTION void start_copy([[maybe_unused]] void* scratch, [[maybe_unused]] const void* memory) {
  KOKKOS_IF_ON_DEVICE((asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;" ::"r"(
                                        std::uint32_t(__cvta_generic_to_shared(scratch))),
                                    "l"(memory), "n"(scratch_offset), "n"(memory_offset)
                                    : "memory");))
}

// A slot is one pack of each thread; they move in batches of kBatch slots. Of a row's kHeld + kParked batches the first are
// held in registers between the two passes, the others stay in the ring, which has kRing places. The kAhead batches behind
// those that are loaded are on their way to the L2 cache, each as one piece: memory gives a piece faster than its packs. What
// a longer row has beyond its batches is read twice.
template <int threads, int teams, int batch, int held, int parked, int ring, int ahead = 0>
struct RowShape {
  static constexpr int kThreads = threads, kTeams = teams, kBatch = batch, kHeld = held, kParked = parked, kRing = ring,
                       kAhead = ahead;
  static constexpr int kBatches = kHeld + kParked, kBatchBytes = kBatch * kThreads * 16;
  static constexpr std::int64_t kRowBytes = std::int64_t(kBatches) * kBatchBytes;
  static_assert(kThreads % 32 == 0 && kThreads <= 1024 && kParked < kRing && kRing <= kBatches);
};

template <class T, bool with_gradient, class Shape>
struct StreamedRows {
  static constexpr int kThreads = Shape::kThreads, kBatch = Shape::kBatch, kRing = Shape::kRing;
  static constexpr int kHeld = Shape::kHeld, kParked = Shape::kParked;
  static_assert(with_gradient || kParked == 0, "without a gradient nothing is needed twice");
  static constexpr int kSize = 16 / int(sizeof(T)), kWarps = kThreads / 32;
  static constexpr int kScratch = kRing * Shape::kBatchBytes + 2 * (kWarps + 1) * int(sizeof(RunningSum));
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, Shape::kTeams>>;
  using Member = typename Policy::member_type;
  using Piece = Words<kSize, T>;
  static_assert(sizeof(Piece) == 16);

  LossRows rows;
  const float* grad_scale;

  // A thread's view of a row: its first pack, and how many packs the row has from there on; kNone if there is no such row.
  static constexpr int kNone = INT32_MIN / 2;
  struct Row {
    T* first;
    int packs;
    std::uint32_t index;
  };
  struct Scratch {
    Piece* slots;                   // this thread's, kThreads apart
    RunningSum *sums, *other_sums;  // of each warp, then the row that is claimed meanwhile; for two rows in turn
    int oldest;                     // the place, in Pieces, whose batch was loaded first
  };
  // What the pass that writes a row needs of the pass that summed it.
  struct Summed {
    Row row;
    float shift;  // -top · log2(e)
    float scale;  // of the exponentials; in an ignored row, the gradient itself
    float tail, patch;
    std::int32_t patched;  // the label if it is this thread's element, else -1; its gradient is `patch`
    bool valid;            // not ignored
  };

  // f(j) for each j < n: nothing that depends on the number is left at run time.
  template <class F, int... j>
  static KOKKOS_FUNCTION void each([[maybe_unused]] const F& f, std::integer_sequence<int, j...>) {
    (f(Width<j>{}), ...);
  }
  template <int n, class F>
  static KOKKOS_FUNCTION void each(const F& f) {
    each(f, std::make_integer_sequence<int, n>{});
  }

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const int rank = team.team_rank() * 32 + lane();
    Scratch s = scratch_of(team, rank);
    const std::uint32_t teams = std::uint32_t(team.league_size()), first = std::uint32_t(team.league_rank());
    Row next = row_at(first, rank), later = row_at(first + teams, rank);
    // The first places belong to the parked batches of a row before the first.
    s.oldest = place(s, kParked);
    each<kRing - kParked>([&](auto j) { refill<decltype(j)::value - kRing>(s, next, later); });

    Piece held[with_gradient ? kHeld : 1][kBatch];
    Summed now{.row = {next.first, kNone, next.index}};
    for (;;) {
      const bool more = next.index < rows.tokens;
      const std::int32_t label = more ? rows.labels[next.index] : -1;
      RunningSum sum;
      each<kParked>([&](auto j) {
        constexpr int b = kHeld + decltype(j)::value;
        if (reaches<b>(now.row, rank)) {
          Piece words[kBatch];
          read(s, s.oldest, words);
          write<b>(now, words);
        }
        refill<b - Shape::kBatches>(s, next, later);
        add_parked<decltype(j)::value>(s, next, rank, sum);
      });
      // Loaded long before they are used.
      const bool mine = owner(label) == rank;
      const float wanted = mine && label >= 0 && label < rows.vocabulary ? element(next, rank, label) : NAN;
      const std::int64_t tail_at = whole_packs() * kSize + rank;
      const float tail = more && tail_at < rows.vocabulary ? element(next, rank, tail_at) : -FLT_MAX;

      std::uint32_t claimed = later.index + teams;
      each<kHeld>([&](auto j) {
        constexpr int b = decltype(j)::value;
        Piece(&words)[kBatch] = held[with_gradient ? b : 0];
        // Early enough that the row's end need not wait for the answer: a loss alone is done with a row in half the time.
        if (b == (with_gradient ? kHeld - 1 : 0) && rank == 0 && later.index < rows.tokens)
          claimed = 2 * teams + claim(teams);
        if constexpr (with_gradient) {
          if (reaches<b>(now.row, rank)) write<b>(now, words);
          if (reaches<b>(next, rank)) read(s, s.oldest, words);  // it has been added kParked batches ago
          refill<b>(s, next, later);
          add_parked<kParked + b>(s, next, rank, sum);
        } else {
          wait_for_groups<kRing - 1>();
          if (reaches<b>(next, rank)) {
            read(s, s.oldest, words);
            sum.add(words);
          }
          refill<b>(s, next, later);
        }
      });
      if constexpr (with_gradient) write_rest(now, rank);
      if (!more) return;
      for (int p = Shape::kBatches * kBatch * kThreads; p < next.packs; p += kThreads) {
        const Piece words[1] = {load_words<kSize>(next.first + std::int64_t(p) * kSize)};
        sum.add(words);
      }
      if (tail_at < rows.vocabulary) sum.add(tail);
      add_team(team, s, sum, claimed);
      now = summed(next, label, mine, wanted, tail, sum);
      next = later;
      later = row_at(claimed, rank);
    }
  }

 private:
  static KOKKOS_FUNCTION int lane() {
    KOKKOS_IF_ON_DEVICE((return int(threadIdx.x);))
    KOKKOS_IF_ON_HOST((return 0;))
  }
  // Whether this is the team's first thread, rank 0.
  static KOKKOS_FUNCTION bool leads() {
    KOKKOS_IF_ON_DEVICE((return threadIdx.x == 0 && threadIdx.y == 0;))
    KOKKOS_IF_ON_HOST((return true;))
  }
  KOKKOS_FUNCTION Scratch scratch_of(const Member& team, int rank) const {
    Piece* const slots = static_cast<Piece*>(team.team_scratch(0).get_shmem_aligned(+kScratch, 16));
    RunningSum* const sums = reinterpret_cast<RunningSum*>(slots + kRing * kBatch * kThreads);
    return {slots + rank, sums, sums + kWarps + 1, 0};
  }

  // Each row beyond the two that every team begins with is taken once, and each team that had two once finds none left: tokens - teams
  // times in all. The last of them leaves 0.
  KOKKOS_FUNCTION std::uint32_t claim([[maybe_unused]] std::uint32_t teams) const {
    KOKKOS_IF_ON_DEVICE(
        (return atomicInc(reinterpret_cast<unsigned int*>(rows.claims), std::uint32_t(rows.tokens) - teams - 1);))
    KOKKOS_IF_ON_HOST((return 0;))
  }

  KOKKOS_FUNCTION std::int64_t whole_packs() const { return rows.vocabulary / kSize; }
  KOKKOS_FUNCTION Row row_at(std::uint32_t row, int rank) const {
    return {static_cast<T*>(rows.logits) + std::int64_t(row) * rows.stride + rank * kSize,
            row < rows.tokens ? int(whole_packs()) - rank : kNone, row};
  }
  KOKKOS_FUNCTION float element(const Row& row, int rank, std::int64_t i) const {
    return float(row.first[i - rank * kSize]);
  }
  // The thread that writes element i, and a row's loss; the first one's where there is no such element.
  KOKKOS_FUNCTION int owner(std::int32_t i) const {
    if (i < 0 || i >= rows.vocabulary) return 0;
    const std::uint32_t pack = std::uint32_t(i) / kSize;
    return int(pack < whole_packs() ? pack % kThreads : i - whole_packs() * kSize);
  }

  static constexpr int offset_of(int batch, int g) { return (batch * kBatch + g) * kThreads; }  // in packs
  template <int b>  // whether batch b has anything of the row, for any thread
  static KOKKOS_FUNCTION bool reaches(const Row& row, int rank) {
    return offset_of(b, 0) < row.packs + rank;
  }
  // f(g, whether slot g of batch b lies inside the row), decided once for a batch that does with all of it.
  template <int b, class F>
  static KOKKOS_FUNCTION void for_whole_batch(const Row& row, const F& f) {
    if (offset_of(b, kBatch - 1) < row.packs)
      each<kBatch>([&](auto g) { f(g, true); });
    else
      each<kBatch>([&](auto g) { f(g, offset_of(b, g) < row.packs); });
  }
  static KOKKOS_FUNCTION int place(const Scratch& s, int ahead) {
    const int p = s.oldest + ahead * kBatch * kThreads, end = kRing * kBatch * kThreads;
    return p < end ? p : p - end;
  }

  // Batch b of `next` (of the row before it if negative) has left the oldest place: loads what comes kRing batches later.
  // Every batch is a group of copies, also one beyond a row's end, so that those under way can be counted; places beyond
  // it get -inf.
  template <int b>
  static KOKKOS_FUNCTION void refill(Scratch& s, const Row& next, const Row& later) {
    constexpr int kComing = b + kRing, kOf = kComing % Shape::kBatches;
    static_assert(kComing >= 0 && kComing < 2 * Shape::kBatches);
    const Row& row = kComing < Shape::kBatches ? next : later;
    for_whole_batch<kOf>(row, [&](auto g, bool inside) {
      constexpr int kSlot = decltype(g)::value * kThreads;
      if (inside)
        start_copy<kSlot * 16, offset_of(kOf, decltype(g)::value) * 16>(s.slots + s.oldest, row.first);
      else
        store_words(reinterpret_cast<T*>(s.slots + s.oldest + kSlot), nothing());
    });
    end_group();
    s.oldest = place(s, 1);
    if constexpr (Shape::kAhead > 0) ask<kComing + Shape::kAhead>(next, later);
  }
  // Batch b of `next`, or of `later` behind it: one thread, for the team.
  template <int b>
  static KOKKOS_FUNCTION void ask(const Row& next, const Row& later) {
    static_assert(b < 2 * Shape::kBatches);
    constexpr int kFirst = offset_of(b % Shape::kBatches, 0);
    const Row& row = b < Shape::kBatches ? next : later;
    if (leads() && row.packs > kFirst)
      ask_for(row.first + std::int64_t(kFirst) * kSize,
              std::uint32_t(Kokkos::min(row.packs - kFirst, kBatch * kThreads)) * 16);
  }
  static KOKKOS_FUNCTION void read(const Scratch& s, int at, Piece (&words)[kBatch]) {
    for (int g = 0; g < kBatch; ++g)
      words[g] = load_words<kSize>(reinterpret_cast<const T*>(s.slots + at + g * kThreads));
  }
  // Batch b of `next`, which lies behind kParked - 1 others.
  template <int b>
  static KOKKOS_FUNCTION void add_parked(const Scratch& s, const Row& next, int rank, RunningSum& sum) {
    wait_for_groups<kRing - kParked>();
    if (!reaches<b>(next, rank)) return;
    Piece words[kBatch];
    read(s, place(s, kParked - 1), words);
    sum.add(words);
  }
  static KOKKOS_FUNCTION Piece nothing() {
    constexpr std::uint32_t kWord = sizeof(T) == 2 ? 0xff80ff80u : 0xff800000u;
    return {{kWord, kWord, kWord, kWord}};
  }

  // One multiplication less than e^(x - top) · scale; that the greatest x may miss 2^0 by a rounding is no matter here.
  static KOKKOS_FUNCTION float gradient(const Summed& r, float x) {
    return exp2_fast(multiply_add(x, kLog2e, r.shift)) * r.scale;
  }
  static KOKKOS_FUNCTION void write_pack(const Summed& r, std::int64_t offset, const Piece& words) {
    Floats<kSize> v = to_floats(words);
    for (int k = 0; k < kSize; ++k) v.v[k] = gradient(r, v.v[k]);
    store(r.row.first + offset * kSize, v);
  }
  static KOKKOS_FUNCTION void write_none(const Summed& r, std::int64_t offset) {
    Floats<kSize> v;
    for (int k = 0; k < kSize; ++k) v.v[k] = r.scale;
    store(r.row.first + offset * kSize, v);
  }
  template <int b>
  static KOKKOS_FUNCTION void write(const Summed& r, const Piece (&words)[kBatch]) {
    if (r.valid) {
      for_whole_batch<b>(r.row, [&](auto g, bool inside) {
        if (inside) write_pack(r, offset_of(b, g), words[g]);
      });
    } else {
      for (int g = 0; g < kBatch; ++g)
        if (offset_of(b, g) < r.row.packs) write_none(r, offset_of(b, g));
    }
  }
  // What lies beyond the batches, the elements after the last pack, and the label's, which was written like any other.
  KOKKOS_FUNCTION void write_rest(const Summed& r, int rank) const {
    if (r.row.packs == kNone) return;
    for (int p = Shape::kBatches * kBatch * kThreads; p < r.row.packs; p += kThreads) {
      if (r.valid)
        write_pack(r, p, load_words<kSize>(r.row.first + std::int64_t(p) * kSize));
      else
        write_none(r, p);
    }
    T* const x = r.row.first - rank * kSize;
    const std::int64_t tail_at = whole_packs() * kSize + rank;
    if (tail_at < rows.vocabulary) x[tail_at] = T(r.valid ? gradient(r, r.tail) : r.scale);
    if (r.patched >= 0) x[r.patched] = T(r.patch);
  }

  // Over the team: the same bits in all threads. Two rows in turn need one barrier each: nobody writes a row's sums before
  // all have read those of the row before the last.
  KOKKOS_FUNCTION void add_team(const Member& team, Scratch& s, RunningSum& sum, std::uint32_t& claimed) const {
    std::uint32_t* const word = reinterpret_cast<std::uint32_t*>(s.sums + kWarps);
    sum.add_lanes();
    if (lane() == 0) s.sums[team.team_rank()] = sum;
    if (lane() == 0 && team.team_rank() == 0) *word = claimed;
    team.team_barrier();
    claimed = *word;
    sum = lane() < kWarps ? s.sums[lane()] : RunningSum{};
    sum.add_lanes();
    std::swap(s.sums, s.other_sums);
  }
  KOKKOS_FUNCTION Summed summed(const Row& row, std::int32_t label, bool mine, float wanted, float tail,
                                const RunningSum& sum) const {
    const bool valid = label >= 0;
    // A label beyond the vocabulary is a broken batch: its loss is NaN, which the step reports.
    if (mine) rows.loss[row.index] = valid ? (sum.top - wanted) + Kokkos::log(sum.sum) : 0.0f;
    if constexpr (!with_gradient) return {};
    const float at_label = row_scale(grad_scale, label, rows.vocabulary);
    const float scale = valid ? at_label / sum.sum : 0.0f * at_label;
    return {row,
            -sum.top * kLog2e,
            scale,
            tail,
            exp_fast(wanted - sum.top) * scale - at_label,
            mine && valid && label < rows.vocabulary ? label : -1,
            valid};
  }
};

template <class T, bool with_gradient, class Shape>
void launch_rows(const Exec& exec, const char* label, const LossRows& rows, const float* grad_scale) {
  using Op = StreamedRows<T, with_gradient, Shape>;
  // As many teams as the device runs at a time: each takes its next row as soon as it has one behind it.
  const std::int64_t teams = std::int64_t(exec.cuda_device_prop().multiProcessorCount) * Shape::kTeams;
  Kokkos::parallel_for(label,
                       typename Op::Policy(exec, int(std::min(teams, rows.tokens)), Op::kWarps, 32)
                           .set_scratch_size(0, Kokkos::PerTeam(Op::kScratch + 16)),
                       Op{rows, grad_scale});
}

#endif

}  // namespace mylos::kernels::detail
