// The last step of the backward pass: dw from the parts of dw of each block of rows, in a fixed order. Not for use outside
// this folder.
#pragma once

#include "kernels/detail/team_sum.hpp"
#include "kernels/rms_norm/backward_rows.hpp"

namespace mylos::kernels::device {

template <class DW>
struct CombineColumns {
  const float* parts;
  DW* dw;
  std::int64_t blocks, width;
  bool accumulate;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    float s = 0.0f;
    for (std::int64_t b = 0; b < blocks; ++b) s += parts[b * width + i];
    dw[i] = DW(accumulate ? float(dw[i]) + s : s);
  }
};

// 32 columns and 32 lanes over the blocks for each team; a lane has kAhead loads under way. A warp then adds up the lanes of
// a column.
template <class DW>
struct CombineTeam {
  static constexpr int kThreads = 1024;
  static constexpr int kPitch = 33;  // of scratch memory, so that a column's sums are in different banks
  static constexpr int kScratch = 32 * kPitch * int(sizeof(float));

  CombineColumns<DW> c;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const int place = member.team_rank() % 32, warp = member.team_rank() / 32;
    const std::int64_t first = std::int64_t(member.league_rank()) * 32, i = first + place;
    constexpr int kAhead = 9;  // 32 · 9 cover 264 blocks in one round
    float s = 0.0f;
    for (std::int64_t b = warp; i < c.width && b < c.blocks; b += kAhead * 32) {
      float part[kAhead];
      for (int j = 0; j < kAhead; ++j) part[j] = b + j * 32 < c.blocks ? c.parts[(b + j * 32) * c.width + i] : 0.0f;
      for (int j = 0; j < kAhead; ++j) s += part[j];
    }
    float* const shared = static_cast<float*>(member.team_scratch(0).get_shmem_aligned(+kScratch, 16));
    shared[warp * kPitch + place] = s;
    member.team_barrier();
    s = detail::warp_sum(shared[place * kPitch + warp]);
    const std::int64_t column = first + warp;
    if (place == 0 && column < c.width) c.dw[column] = DW(c.accumulate ? float(c.dw[column]) + s : s);
  }
};

template <class DW>
void combine(const Exec& exec, const CombineColumns<DW>& c) {
  const char* label = "mylos::rms_norm::backward_weight";
  if constexpr (kOnGpu) {
    using Team = CombineTeam<DW>;
    using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<Team::kThreads, 1>>;
    Kokkos::parallel_for(label,
                         Policy(exec, int((c.width + 31) / 32), Team::kThreads)
                             .set_scratch_size(0, Kokkos::PerTeam(Team::kScratch + 16)),
                         Team{c});
  } else {
    for_each<1>(exec, label, c.width, false, c);
  }
}

}  // namespace mylos::kernels::device
