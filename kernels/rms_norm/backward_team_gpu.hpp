// Blocks of rows on a GPU, a team a row: dx, and the block's part of dw [blocks, D]. Not for use outside this folder.
//
// The next kSlots rows of dy, x and dresidual are always on their way into scratch memory: a multiprocessor must have some
// 64 KB under way, or it waits for memory, above all at the lower clock of a step that draws the card's full power. A row
// goes from its slot to registers at once, so that the slot is free for the next one before the row's sum is known. Each
// thread copies and reads the same packs, so only the sum needs a barrier. It keeps its columns of dw in registers over all
// rows of the block. Blocks take turns at the rows, so that all of them read and write neighbouring memory at a time: with runs
// of rows of its own for each the pass takes 5 % longer. dx may be dy or dresidual: a row is written after it is read, and no other team has it.
#pragma once

#include "kernels/detail/async_copy.hpp"
#include "kernels/detail/team_sum.hpp"
#include "kernels/rms_norm/backward_rows.hpp"
#include "kernels/rms_norm/gpu.hpp"

namespace mylos::kernels::device {

template <class T, class WT, int W, int kThreads, int kPacks, int kSlots>
struct TeamBlock {
  using Row = RowPointers<T, WT>;
  using Kept = typename Row::template Kept<W>;
  using Sum = detail::TeamSum<kThreads>;
  static constexpr int kTensor = kThreads * kPacks * W;  // elements of one tensor in a slot
  static constexpr int kSlotBytes = 3 * kTensor * int(sizeof(T)), kScratch = kSlots * kSlotBytes + Sum::kBytes;
  static constexpr bool kKeepsWeights = kPacks <= 2;  // wider rows leave no registers for them
  static_assert(W * sizeof(T) == 16);

  Operands<T, WT> o;
  float* parts;

  // The pack's index in the row, and in a tensor of a slot.
  static KOKKOS_FUNCTION int pack(int rank, int j) { return rank + j * kThreads; }

  KOKKOS_FUNCTION void fetch(T* slot, std::int64_t r, int packs, int rank) const {
    if (r < o.rows) {
      const Row row(o, r, 0.0f);
      for (int j = 0; j < kPacks; ++j) {
        const int p = pack(rank, j);
        if (p >= packs) continue;
        detail::start_copy(slot + p * W, row.dy + p * W);
        detail::start_copy(slot + kTensor + p * W, row.x + p * W);
        if (o.with_residual) detail::start_copy(slot + 2 * kTensor + p * W, row.dresidual + p * W);
      }
    }
    detail::end_group();  // also without a row, so that a slot is always a group
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const int rank = member.team_rank(), packs = int(o.width / W);
    const std::int64_t b = member.league_rank(), blocks = member.league_size();
    T* const slots = static_cast<T*>(member.team_scratch(0).get_shmem_aligned(+kScratch, 16));
    Sum sum_of(slots + kSlots * 3 * kTensor);
    for (int s = 0; s < kSlots; ++s) fetch(slots + s * 3 * kTensor, b + s * blocks, packs, rank);

    Words<W, WT> weights[kPacks];
    for (int j = 0; kKeepsWeights && j < kPacks; ++j)
      if (pack(rank, j) < packs) weights[j] = load_words<W>(o.w + pack(rank, j) * W);
    const auto weight = [&](int j) { return kKeepsWeights ? to_floats(weights[j]) : load<W>(o.w + pack(rank, j) * W); };
    Floats<W> sums[kPacks] = {};
    float rstd = o.rstd[b];  // there are no more blocks than rows
    T* slot = slots;
    for (std::int64_t r = b; r < o.rows; r += blocks) {
      detail::wait_for_groups<kSlots - 1>();
      Kept kept[kPacks] = {};
      for (int j = 0; j < kPacks; ++j) {
        const int p = pack(rank, j);
        if (p >= packs) continue;
        kept[j].dy = load_words<W>(slot + p * W);
        kept[j].x = load_words<W>(slot + kTensor + p * W);
        if (o.with_residual) kept[j].dresidual = load_words<W>(slot + 2 * kTensor + p * W);
      }
      const float next_rstd = r + blocks < o.rows ? o.rstd[r + blocks] : 0.0f;
      fetch(slot, r + kSlots * blocks, packs, rank);
      slot = slot == slots + (kSlots - 1) * 3 * kTensor ? slots : slot + 3 * kTensor;

      const Row row(o, r, rstd);
      float total = 0.0f;
      for (int j = 0; j < kPacks; ++j)
        if (pack(rank, j) < packs) total += row.dot(weight(j), to_floats(kept[j].dy), to_floats(kept[j].x));
      for (int j = 0; j < kPacks; ++j) row.add_weight_gradient(kept[j], sums[j]);
      const float common = row.common(sum_of(member, total), o.width);
      for (int j = 0; j < kPacks; ++j)
        if (pack(rank, j) < packs)
          row.write_dx(pack(rank, j) * W, weight(j), to_floats(kept[j].dy), to_floats(kept[j].x),
                       to_floats(kept[j].dresidual), common);
      rstd = next_rstd;
    }
    for (int j = 0; j < kPacks; ++j)
      if (pack(rank, j) < packs) store(parts + b * o.width + pack(rank, j) * W, sums[j]);
  }
};

// kTeams: how many a multiprocessor runs at a time, for rows of at most kThreads · kPacks packs. Returns how many blocks
// there are, at most `blocks`.
template <int W, int kThreads, int kPacks, int kSlots, int kTeams, class T, class WT>
std::int64_t launch_team_blocks(const Exec& exec, const Operands<T, WT>& o, float* parts, std::int64_t blocks) {
  using Op = TeamBlock<T, WT, W, kThreads, kPacks, kSlots>;
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, kTeams>>;
  blocks = std::min(blocks, kTeams * kGpuMultiprocessors);
  Kokkos::parallel_for("mylos::rms_norm::backward",
                       Policy(exec, int(blocks), kThreads).set_scratch_size(0, Kokkos::PerTeam(Op::kScratch + 16)),
                       Op{o, parts});
  return blocks;
}

}  // namespace mylos::kernels::device
