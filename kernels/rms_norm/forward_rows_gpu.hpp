// The forward passes on a GPU for rows of some length: kGroup threads a row, a whole team or a warp. Not for use outside
// this folder.
//
// Teams stay and take row after row. The next kSlots rows of each are always on their way into scratch memory, so that
// memory is busy while a sum goes through the team. A row goes from its slot to registers at once and its slot takes the
// next one. y may be x, sum may be x or residual: a row is written after it is read, and nobody else has it.
#pragma once

#include "kernels/detail/async_copy.hpp"
#include "kernels/detail/team_sum.hpp"
#include "kernels/rms_norm/forward_rows.hpp"
#include "kernels/rms_norm/gpu.hpp"

namespace mylos::kernels::device {

template <class T, class WT, int W, ForwardOp op, int kThreads, int kGroup, int kPacks, int kSlots>
struct ForwardRows {
  using Sum = detail::TeamSum<kGroup>;
  static constexpr bool kWithResidual = op == ForwardOp::residual_norm;
  static constexpr int kTensor = kGroup * kPacks * W;  // elements of one tensor in a slot
  static constexpr int kSlot = (kWithResidual ? 2 : 1) * kTensor, kGroups = kThreads / kGroup;
  static constexpr int kScratch = kGroups * kSlots * kSlot * int(sizeof(T)) + Sum::kBytes;
  static constexpr bool kKeepsWeights = kPacks <= 4;
  static_assert(W * sizeof(T) == 16 && (kGroup == 32 || kGroup == kThreads));

  ForwardOperands<T, WT> o;

  static KOKKOS_FUNCTION int pack(int rank, int j) { return rank + j * kGroup; }

  KOKKOS_FUNCTION void fetch(T* slot, std::int64_t r, int packs, int rank) const {
    if (r < o.rows) {
      const T* const x = o.x.row(r);
      const T* const residual = kWithResidual ? o.residual.row(r) : nullptr;
      for (int j = 0; j < kPacks; ++j) {
        const int p = pack(rank, j);
        if (p >= packs) continue;
        detail::start_copy(slot + p * W, x + p * W);
        if constexpr (kWithResidual) detail::start_copy(slot + kTensor + p * W, residual + p * W);
      }
    }
    detail::end_group();  // also without a row, so that a slot is always a group
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const int rank = member.team_rank() % kGroup, group = member.team_rank() / kGroup, packs = int(o.width / W);
    const std::int64_t step = std::int64_t(member.league_size()) * kGroups;
    std::int64_t r = std::int64_t(group) * member.league_size() + member.league_rank();
    T* const scratch = static_cast<T*>(member.team_scratch(0).get_shmem_aligned(+kScratch, 16));
    T* const slots = scratch + group * kSlots * kSlot;
    Sum sum_of(scratch + kGroups * kSlots * kSlot);
    for (int s = 0; s < kSlots; ++s) fetch(slots + s * kSlot, r + s * step, packs, rank);

    Words<W, WT> weights[kKeepsWeights ? kPacks : 1];
    for (int j = 0; kKeepsWeights && j < kPacks; ++j)
      if (pack(rank, j) < packs) weights[j] = load_words<W>(o.w + pack(rank, j) * W);
    const auto weight = [&](int j) { return kKeepsWeights ? to_floats(weights[j]) : load<W>(o.w + pack(rank, j) * W); };
    float next_rstd = op == ForwardOp::apply && r < o.rows ? o.rstd[r] : 0.0f;
    T* slot = slots;
    for (; r < o.rows; r += step) {
      detail::wait_for_groups<kSlots - 1>();
      Words<W, T> kept[kPacks] = {};
      for (int j = 0; j < kPacks; ++j) {
        const int p = pack(rank, j);
        if (p >= packs) continue;
        kept[j] = load_words<W>(slot + p * W);
        if constexpr (kWithResidual) kept[j] = rounded_sum(kept[j], load_words<W>(slot + kTensor + p * W));
      }
      fetch(slot, r + kSlots * step, packs, rank);
      slot = slot == slots + (kSlots - 1) * kSlot ? slots : slot + kSlot;
      if constexpr (kWithResidual) {
        T* const sum = o.sum.row(r);
        for (int j = 0; j < kPacks; ++j)
          if (pack(rank, j) < packs) store_words(sum + pack(rank, j) * W, kept[j]);
      }
      float rstd = next_rstd;
      if constexpr (op == ForwardOp::apply) {
        if (r + step < o.rows) next_rstd = o.rstd[r + step];
      } else {
        float squares = 0.0f;
        for (int j = 0; j < kPacks; ++j) squares += sum_of_squares(kept[j]);  // zeros beyond the row
        rstd = rstd_of(sum_of(member, squares), o.width, o.eps);
        if (rank == 0 && o.rstd != nullptr) o.rstd[r] = rstd;
      }
      T* const y = o.y.row(r);
      for (int j = 0; j < kPacks; ++j)
        if (pack(rank, j) < packs) scale_row(kept[j], weight(j), rstd, y + pack(rank, j) * W);
    }
  }
};

// kTeams: how many a multiprocessor runs at a time, for rows of at most kGroup · kPacks packs.
template <ForwardOp op, int W, int kThreads, int kGroup, int kPacks, int kSlots, int kTeams, class T, class WT>
void launch_forward_rows(const Exec& exec, const char* label, const ForwardOperands<T, WT>& o) {
  using Op = ForwardRows<T, WT, W, op, kThreads, kGroup, kPacks, kSlots>;
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, kTeams>>;
  const std::int64_t teams = std::min(kTeams * kGpuMultiprocessors, (o.rows + Op::kGroups - 1) / Op::kGroups);
  Kokkos::parallel_for(
      label, Policy(exec, int(teams), kThreads).set_scratch_size(0, Kokkos::PerTeam(Op::kScratch + 16)), Op{o});
}

}  // namespace mylos::kernels::device
