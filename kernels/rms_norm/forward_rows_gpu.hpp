// The forward passes on a GPU for rows of some length: a team a row, which goes when the row is done. Not for use outside
// this folder.
//
// All of a row is on its way before any of it is used. Teams are not kept for further rows: multiprocessors are not equally
// near to memory, and rows that are given out beforehand are finished when the slowest has done its share. y may be x, sum
// may be x or residual: a row is written after it is read, and nobody else has it.
#pragma once

#include "kernels/detail/async_copy.hpp"
#include "kernels/detail/team_sum.hpp"
#include "kernels/rms_norm/forward_rows.hpp"

namespace mylos::kernels::device {

template <class T, class WT, int W, ForwardOp op, int kThreads, int kPacks>
struct ForwardRow {
  using Sum = detail::TeamSum<kThreads>;
  static constexpr bool kWithResidual = op == ForwardOp::residual_norm;
  static constexpr int kTensor = kThreads * kPacks * W;  // elements of one tensor in scratch memory
  static constexpr int kScratch = (kWithResidual ? 2 : 1) * kTensor * int(sizeof(T)) + Sum::kBytes;
  static_assert(W * sizeof(T) == 16 && Sum::kBytes % 16 == 0);

  ForwardOperands<T, WT> o;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const int rank = member.team_rank(), packs = int(o.width / W);
    const std::int64_t r = member.league_rank();
    const auto each = [&](const auto& f) {  // f(j, place in the row) for the packs of this thread
      for (int j = 0; j < kPacks; ++j)
        if (rank + j * kThreads < packs) f(j, (rank + j * kThreads) * W);
    };
    char* const scratch = static_cast<char*>(member.team_scratch(0).get_shmem_aligned(+kScratch, 16));
    Sum sum_of(scratch);
    T* const row = reinterpret_cast<T*>(scratch + Sum::kBytes);
    const T* const x = o.x.row(r);
    const T* const residual = kWithResidual ? o.residual.row(r) : nullptr;
    each([&](int, int i) {
      detail::start_copy(row + i, x + i);
      if constexpr (kWithResidual) detail::start_copy(row + kTensor + i, residual + i);
    });
    detail::end_group();
    Words<W, WT> weights[kPacks];
    each([&](int j, int i) { weights[j] = load_words<W>(o.w + i); });
    float rstd = op == ForwardOp::apply ? o.rstd[r] : 0.0f;

    detail::wait_for_groups<0>();
    Words<W, T> kept[kPacks] = {};
    each([&](int j, int i) {
      kept[j] = load_words<W>(row + i);
      if constexpr (kWithResidual) {
        kept[j] = rounded_sum(kept[j], load_words<W>(row + kTensor + i));
        store_words(o.sum.row(r) + i, kept[j]);
      }
    });
    if constexpr (op != ForwardOp::apply) {
      float squares = 0.0f;
      for (int j = 0; j < kPacks; ++j) squares += sum_of_squares(kept[j]);  // zeros beyond the row
      rstd = rstd_of(sum_of(member, squares), o.width, o.eps);
      if (rank == 0 && o.rstd != nullptr) o.rstd[r] = rstd;
    }
    T* const y = o.y.row(r);
    each([&](int j, int i) { scale_row(kept[j], to_floats(weights[j]), rstd, y + i); });
  }
};

// For rows of at most kThreads · kPacks packs.
template <ForwardOp op, int W, int kThreads, int kPacks, class T, class WT>
void launch_forward_rows(const Exec& exec, const char* label, const ForwardOperands<T, WT>& o) {
  using Op = ForwardRow<T, WT, W, op, kThreads, kPacks>;
  using Policy =
      Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, 896 / kThreads>>;  // no fewer threads than that
  Kokkos::parallel_for(
      label, Policy(exec, int(o.rows), kThreads).set_scratch_size(0, Kokkos::PerTeam(Op::kScratch + 16)), Op{o});
}

}  // namespace mylos::kernels::device
