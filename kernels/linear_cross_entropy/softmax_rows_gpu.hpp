// The softmax pass on a GPU. A row of logits (a quarter of a megabyte at 128,256 words) is read from memory once: a team
// keeps it in scratch memory and registers between the pass that finds its maximum and sum and the pass that writes its
// gradient. While the gradient is written, the loads of the team's next row fill the slots that become free, and its sum
// begins: the exponentials, which take the special function unit a third of the time that memory takes, hide behind memory.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "kernels/detail/pack.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"

namespace mylos::kernels::detail {

#if defined(KOKKOS_ENABLE_CUDA)

// Copies 16 bytes to scratch memory behind the thread's back, past registers and the L1 cache. A thread reads only what it
// copied itself, so waiting for its own copies is enough.
KOKKOS_FUNCTION inline void start_copy([[maybe_unused]] void* scratch, [[maybe_unused]] const void* memory) {
  KOKKOS_IF_ON_DEVICE(
      (asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(std::uint32_t(__cvta_generic_to_shared(scratch))),
                    "l"(memory)
                    : "memory");))
}
KOKKOS_FUNCTION inline void end_group() { KOKKOS_IF_ON_DEVICE((asm volatile("cp.async.commit_group;" ::: "memory");)) }
template <int kLater>  // waits for all groups but the last kLater
KOKKOS_FUNCTION void wait_for_groups() {
  KOKKOS_IF_ON_DEVICE((asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");))
}

// 2^x by the special function unit alone, relative error 2^-22; a result that would be denormal is 0.
KOKKOS_FUNCTION inline float exp2_fast(float x) {
  KOKKOS_IF_ON_DEVICE((float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;))
  KOKKOS_IF_ON_HOST((return std::exp2(x);))
}
KOKKOS_FUNCTION inline float exp_fast(float x) { return exp2_fast(x * 1.44269504f); }

// Maximum and sum of e^(x - maximum) in one pass (Milakov and Gimelshein 2018): the sum is rescaled when the maximum
// grows.
struct RunningSum {
  float top = -FLT_MAX, sum = 0.0f;

  template <int W>
  KOKKOS_FUNCTION void add(const Floats<W>& x) {
    float local = top;
    for (int k = 0; k < W; ++k) local = Kokkos::fmax(local, x.v[k]);
    sum *= exp_fast(top - local);
    top = local;
    for (int k = 0; k < W; ++k) sum += exp_fast(x.v[k] - local);
  }
};

// kThreads a team, kSlots packs of each in scratch memory and kHeld in registers; what a longer row has beyond is read
// twice.
template <class T, bool with_gradient, int kThreads, int kSlots, int kHeld>
struct ResidentRows {
  static constexpr int kSize = 16 / int(sizeof(T));
  static constexpr int kScratch = kThreads * kSlots * 16;  // bytes
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, 1024 / kThreads>>;
  using Member = typename Policy::member_type;
  using Piece = Words<kSize, T>;
  // The pass that writes a row adds up this many slots of the next one, each kLag slots after it asked for it.
  static constexpr int kLag = 4, kEarly = with_gradient ? kSlots - kLag + std::min(kLag, kHeld) : 0;
  static_assert(sizeof(Piece) == 16);

  LossRows rows;
  const float* grad_scale;

  KOKKOS_FUNCTION T* row_at(std::int64_t row) const { return static_cast<T*>(rows.logits) + row * rows.stride; }

  // Starts loading slot j of a row. Every slot is a group, also one beyond the row's end.
  KOKKOS_FUNCTION void fetch(Piece* slots, std::int64_t row, int rank, int j) const {
    const std::int64_t p = rank + std::int64_t(j) * kThreads;
    if (row < rows.tokens && (p + 1) * kSize <= rows.vocabulary) start_copy(slots + p, row_at(row) + p * kSize);
    end_group();
  }

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
    const int rank = team.team_rank();
    Piece* const slots = static_cast<Piece*>(team.team_scratch(0).get_shmem_aligned(+kScratch, 16));
    each<kSlots>([&](auto j) { fetch(slots, team.league_rank(), rank, j); });
    RunningSum early;
    bool begun = false;  // early has the first kEarly slots of the row
    for (std::int64_t row = team.league_rank(); row < rows.tokens; row += team.league_size()) {
      if (rows.labels[row] < 0) {
        ignore(row, rank);
        wait_for_groups<0>();
        each<kSlots>([&](auto j) { fetch(slots, row + team.league_size(), rank, j); });
        begun = false;
      } else {
        work(team, slots, row, rank, begun, early);
        begun = with_gradient;
      }
    }
  }

 private:
  KOKKOS_FUNCTION void ignore(std::int64_t row, int rank) const {
    if (rank == 0) rows.loss[row] = 0.0f;
    if constexpr (with_gradient) {
      T* const x = row_at(row);
      const T none(0.0f * row_scale(grad_scale, -1, rows.vocabulary));
      for (std::int64_t i = rank; i < rows.vocabulary; i += kThreads) x[i] = none;
    }
  }

  KOKKOS_FUNCTION void add_slot(const Piece* slots, int rank, int j, RunningSum& running) const {
    const std::int64_t p = rank + std::int64_t(j) * kThreads;
    if ((p + 1) * kSize <= rows.vocabulary) running.add(to_floats(slots[p]));
  }

  // early: the sum of the row's first kEarly slots if `begun`; afterwards that of the next row's.
  KOKKOS_FUNCTION void work(const Member& team, Piece* slots, std::int64_t row, int rank, bool begun,
                            RunningSum& early) const {
    const std::int64_t n = rows.vocabulary, packs = n / kSize, next = row + team.league_size();
    constexpr std::int64_t kBeyond = std::int64_t(kSlots + kHeld) * kThreads;
    T* const x = row_at(row);
    const std::int32_t label = rows.labels[row];
    // A label beyond the vocabulary is a broken batch: its loss is NaN, which the step reports, rather than a read out
    // of bounds. Read before any thread overwrites it: the reductions below are barriers.
    const float wanted = label < n ? float(x[label]) : NAN;

    Piece held[kHeld > 0 ? kHeld : 1];
    for (int j = 0; j < kHeld; ++j) {
      const std::int64_t p = rank + std::int64_t(kSlots + j) * kThreads;
      if (p < packs) held[j] = load_words<kSize>(x + p * kSize);
    }
    RunningSum running = begun ? early : RunningSum{};
    each<kSlots>([&](auto j) {
      // Without a gradient the slot is free at once, so that later groups are always as many as slots.
      wait_for_groups<with_gradient ? kSlots - 1 - decltype(j)::value : kSlots - 1>();
      if (j >= kEarly || !begun) add_slot(slots, rank, j, running);
      if constexpr (!with_gradient) fetch(slots, next, rank, j);
    });
    for (int j = 0; j < kHeld; ++j)
      if (rank + std::int64_t(kSlots + j) * kThreads < packs) running.add(to_floats(held[j]));
    for (std::int64_t p = rank + kBeyond; p < packs; p += kThreads) running.add(load<kSize>(x + p * kSize));
    for (std::int64_t i = packs * kSize + rank; i < n; i += kThreads) running.add(load<1>(x + i));

    float top = running.top;
    team.team_reduce(Kokkos::Max<float>(top));
    float sum = running.sum * exp_fast(running.top - top);
    team.team_reduce(Kokkos::Sum<float>(sum));
    if (rank == 0) rows.loss[row] = (top - wanted) + Kokkos::log(sum);

    if constexpr (with_gradient) {
      const float at_label = row_scale(grad_scale, label, n), scale = at_label / sum;
      const auto gradient = [=](auto v, std::int64_t i) {  // of the W logits from i
        constexpr int W = int(sizeof(v.v) / sizeof(float));
        for (int k = 0; k < W; ++k) v.v[k] = exp_fast(v.v[k] - top) * scale;
        if (std::uint32_t(label) - std::uint32_t(i) < std::uint32_t(W))
          for (int k = 0; k < W; ++k)
            if (i + k == label) v.v[k] -= at_label;
        return v;
      };
      early = {};
      each<kSlots>([&](auto j) {
        constexpr int kSlot = decltype(j)::value;
        const std::int64_t p = rank + std::int64_t(kSlot) * kThreads;
        if (p < packs) store(x + p * kSize, gradient(to_floats(slots[p]), p * kSize));
        fetch(slots, next, rank, kSlot);
        if constexpr (kSlot >= kLag) {
          wait_for_groups<kLag>();
          add_slot(slots, rank, kSlot - kLag, early);
        }
      });
      each<kHeld>([&](auto j) {
        const std::int64_t p = rank + std::int64_t(kSlots + j) * kThreads;
        if (p < packs) store(x + p * kSize, gradient(to_floats(held[j]), p * kSize));
        constexpr int kSlot = kSlots - kLag + decltype(j)::value;
        if constexpr (kSlot < kSlots) {
          wait_for_groups<kSlots - 1 - kSlot>();
          add_slot(slots, rank, kSlot, early);
        }
      });
      for (std::int64_t p = rank + kBeyond; p < packs; p += kThreads)
        store(x + p * kSize, gradient(load<kSize>(x + p * kSize), p * kSize));
      for (std::int64_t i = packs * kSize + rank; i < n; i += kThreads) store(x + i, gradient(load<1>(x + i), i));
    }
  }
};

template <class T, bool with_gradient, int kThreads, int kSlots, int kHeld>
void launch_rows(const Exec& exec, const char* label, const LossRows& rows, const float* grad_scale) {
  using Op = ResidentRows<T, with_gradient, kThreads, kSlots, kHeld>;
  // As many teams as the device runs at a time: each takes its next row as soon as it has one behind it.
  const cudaDeviceProp& device = exec.cuda_device_prop();
  const std::int64_t by_scratch = std::int64_t(device.sharedMemPerMultiprocessor) / (Op::kScratch + 16 * kThreads),
                     by_threads = device.maxThreadsPerMultiProcessor / (2 * kThreads);
  const std::int64_t teams = device.multiProcessorCount * std::max<std::int64_t>(1, std::min(by_scratch, by_threads));
  Kokkos::parallel_for(label,
                       typename Op::Policy(exec, int(std::min(teams, rows.tokens)), kThreads)
                           .set_scratch_size(0, Kokkos::PerTeam(Op::kScratch + 16)),
                       Op{rows, grad_scale});
}

#endif

}  // namespace mylos::kernels::detail
