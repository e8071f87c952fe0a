// Blocks of short or very wide rows on a GPU: dx, and the block's part of dw [blocks, D]. By width, lanes of a warp have a
// row, or only dw is made. Not for use outside this folder.
#pragma once

#include "kernels/rms_norm/backward_rows.hpp"

namespace mylos::kernels::device {

using Scratch = Kokkos::View<float*, Exec::scratch_memory_space, Kokkos::MemoryUnmanaged>;

// dx and the block's part of dw for short rows: lanes of a warp a row, so that a team has many and needs no barrier between
// them. Its threads add up their parts of dw at the end.
template <class T, class WT, int W, int kPacks>
struct LaneBlock {
  Operands<T, WT> o;
  float* parts;
  int lanes;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t b = member.league_rank(), blocks = member.league_size(), step = std::int64_t(lanes) * W;
    Floats<W> sums[kPacks] = {};
    for (std::int64_t r = b * o.rows / blocks + member.team_rank(); r < (b + 1) * o.rows / blocks;
         r += member.team_size()) {
      const RowPointers<T, WT> p(o, r);
      typename RowPointers<T, WT>::template Kept<W> kept[kPacks];
      float total = 0.0f;
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(member, lanes),
          [&](int lane, float& s) {
            const std::int64_t first = std::int64_t(lane) * W;
            for (int j = 0; j < kPacks; ++j)
              if (first + j * step < o.width) kept[j] = p.template read<W>(first + j * step);
            for (int j = 0; j < kPacks; ++j)
              if (first + j * step < o.width) s += p.dot(first + j * step, kept[j]);
          },
          total);
      const float common = p.common(total, o.width);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, lanes), [&](int lane) {
        const std::int64_t first = std::int64_t(lane) * W;
        for (int j = 0; j < kPacks; ++j) {
          if (first + j * step >= o.width) continue;
          p.add_weight_gradient(kept[j], sums[j]);
          p.write_dx(first + j * step, kept[j], common);
        }
      });
    }
    const Scratch shared(member.team_scratch(0), std::size_t(member.team_size() * o.width));
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, lanes), [&](int lane) {
      for (int j = 0; j < kPacks; ++j) {
        const std::int64_t i = std::int64_t(lane) * W + j * step;
        if (i < o.width)
          for (int k = 0; k < W; ++k) shared(member.team_rank() * o.width + i + k) = sums[j].v[k];
      }
    });
    member.team_barrier();
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, lanes), [&](int lane) {
      for (std::int64_t i = member.team_rank() * lanes + lane; i < o.width; i += member.team_size() * lanes) {
        float s = 0.0f;
        for (int t = 0; t < member.team_size(); ++t) s += shared(t * o.width + i);
        parts[b * o.width + i] = s;
      }
    });
  }
};

// Only the parts of dw, for very wide or unaligned rows on a GPU: a team has `across` packs of columns, and
// team_size / across rows at a time.
template <class T, class WT, int W>
struct WeightPart {
  Operands<T, WT> o;
  float* parts;
  std::int64_t tiles, blocks;
  int across;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t b = member.league_rank() / tiles, tile = member.league_rank() % tiles;
    const int lane = member.team_rank() % across, down = member.team_rank() / across,
              height = member.team_size() / across;
    const std::int64_t i = (tile * across + lane) * W;
    Floats<W> sums{};
    if (i < o.width) {
      for (std::int64_t r = b * o.rows / blocks + down; r < (b + 1) * o.rows / blocks; r += height) {
        const RowPointers<T, WT> p(o, r);
        p.add_weight_gradient(p.template read<W>(i), sums);
      }
    }
    const Scratch shared(member.team_scratch(0), std::size_t(member.team_size() * W));
    for (int k = 0; k < W; ++k) shared((down * across + lane) * W + k) = sums.v[k];
    member.team_barrier();
    if (down != 0 || i >= o.width) return;
    for (int d = 1; d < height; ++d)
      for (int k = 0; k < W; ++k) sums.v[k] += shared((d * across + lane) * W + k);
    store(parts + b * o.width + i, sums);
  }
};

}  // namespace mylos::kernels::device
