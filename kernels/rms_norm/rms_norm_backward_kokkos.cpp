// dx needs a sum over each row, dw one over all rows. Blocks of rows each leave their part of dw in the workspace, a
// second launch adds the parts in a fixed order. One pass over dy and x makes both, but for very wide or unaligned
// rows on a GPU.
#include "kernels/rms_norm/backward_blocks_gpu.hpp"
#include "kernels/rms_norm/backward_team_gpu.hpp"
#include "kernels/rms_norm/combine.hpp"
#include "kernels/rms_norm/rms_norm_device.hpp"

namespace mylos::kernels::device {
namespace {

// Up to three teams a multiprocessor where a team has a row, as its registers and scratch memory allow, and two where it has
// many.
constexpr std::int64_t kGpuBlocks = 3 * kGpuMultiprocessors, kGpuLaneBlocks = 2 * kGpuMultiprocessors;
constexpr std::int64_t kCpuBlocks = 64;

std::int64_t rows_of(const Tensor& x) { return x.rank() == 3 ? x.extent(0) * x.extent(1) : x.extent(0); }

// Only dx, a row at a time.
template <class T, class WT>
struct InputGradient {
  Operands<T, WT> o;

  template <class Row>
  KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
    const RowPointers<T, WT> p(o, r);
    const std::int64_t width = o.width;
    row.sum_and_use(
        width,
        [=](auto pack, std::int64_t i) {
          return std::pair{i, p.template read<decltype(pack)::value>(i)};
        },
        [=](const auto& kept) { return p.dot(kept.first, kept.second); },
        [=](float total) { return p.common(total, width); },
        [=](auto, std::int64_t i, const auto& kept, float common) { p.write_dx(i, kept.second, common); });
  }
};

// dx and the block's part of dw on a CPU: the part stays in the cache.
template <class T, class WT>
struct CpuBlock {
  Operands<T, WT> o;
  float* parts;
  std::int64_t blocks;

  void operator()(std::int64_t b) const {
    float* part = parts + b * o.width;
    std::fill_n(part, o.width, 0.0f);
    const CpuRow row;
    for (std::int64_t r = b * o.rows / blocks; r < (b + 1) * o.rows / blocks; ++r) {
      const RowPointers<T, WT> p(o, r);
      const float total =
          row.sum(o.width, [=](auto, std::int64_t i) { return p.dot(i, load<1>(p.dy + i), load<1>(p.x + i)); });
      const float common = p.common(total, o.width);
      MYLOS_SIMD
      for (std::int64_t i = 0; i < o.width; ++i) {
        const Floats<1> d = load<1>(p.dy + i), v = load<1>(p.x + i);
        Floats<1> sum{{part[i]}};
        p.add_weight_gradient(d, v, sum);
        part[i] = sum.v[0];
        p.write_dx(i, d, v, p.template residual<1>(i), common);
      }
    }
  }
};

template <int W, int kPacks, class T, class WT>
void launch_lane_blocks(const Exec& exec, const Operands<T, WT>& o, float* parts, std::int64_t blocks, int lanes) {
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<256, 2>>;
  const int rows = 256 / lanes;
  Kokkos::parallel_for("mylos::rms_norm::backward",
                       Policy(exec, int(blocks), rows, lanes)
                           .set_scratch_size(0, Kokkos::PerTeam(Scratch::shmem_size(std::size_t(rows * o.width)))),
                       LaneBlock<T, WT, W, kPacks>{o, parts, lanes});
}

// Returns how many blocks it used, at most `blocks`.
template <int W, class T, class WT>
std::int64_t launch_gpu(const Exec& exec, const Operands<T, WT>& o, float* parts, std::int64_t blocks, bool vector) {
  const std::int64_t packs = o.width / W;
  if constexpr (W > 1) {
    if (packs <= 128) {
      blocks = std::min(blocks, kGpuLaneBlocks);
      int lanes = 1;
      while (lanes < packs && lanes < 32) lanes *= 2;
      if (packs <= lanes) {
        launch_lane_blocks<W, 1>(exec, o, parts, blocks, lanes);
      } else if (packs <= 2 * lanes) {
        launch_lane_blocks<W, 2>(exec, o, parts, blocks, lanes);
      } else if (packs <= 3 * lanes) {
        launch_lane_blocks<W, 3>(exec, o, parts, blocks, lanes);
      } else {
        launch_lane_blocks<W, 4>(exec, o, parts, blocks, lanes);
      }
      return blocks;
    }
    if (packs <= 256) return launch_team_blocks<W, 256, 1, 4, 3>(exec, o, parts, blocks);
    if (packs <= 512) return launch_team_blocks<W, 256, 2, 2, 2>(exec, o, parts, blocks);
    if (packs <= 1024) return launch_team_blocks<W, 512, 2, 3, 1>(exec, o, parts, blocks);
    if (packs <= 2048) return launch_team_blocks<W, 512, 4, 2, 1>(exec, o, parts, blocks);
  }
  int across = 1;
  while (across < 32 && across < packs) across *= 2;
  const std::int64_t tiles = (packs + across - 1) / across;
  // dx may overwrite dy, so dw comes first.
  Kokkos::parallel_for(
      "mylos::rms_norm::backward_parts",
      TeamPolicy(exec, int(blocks * tiles), 256).set_scratch_size(0, Kokkos::PerTeam(Scratch::shmem_size(256 * W))),
      WeightPart<T, WT, W>{o, parts, tiles, blocks, across});
  for_each_row<W>(exec, "mylos::rms_norm::backward", o.rows, o.width, vector, InputGradient<T, WT>{o});
  return blocks;
}

template <class T, class WT>
std::int64_t launch(const Exec& exec, const Operands<T, WT>& o, float* parts, std::int64_t blocks, bool vector) {
  if constexpr (kOnGpu) {
    constexpr int W = pack_width<T, WT>;
    return vector ? launch_gpu<W>(exec, o, parts, blocks, true) : launch_gpu<1>(exec, o, parts, blocks, false);
  } else {
    Kokkos::parallel_for("mylos::rms_norm::backward",
                         Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec, 0, blocks),
                         CpuBlock<T, WT>{o, parts, blocks});
    return blocks;
  }
}

}  // namespace

std::int64_t rms_norm_blocks(std::int64_t rows) { return std::min(rows, kOnGpu ? kGpuBlocks : kCpuBlocks); }

void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                       const Tensor& dresidual, bool accumulate, const Tensor& workspace, const Tensor& dx,
                       const Tensor& dw) {
  const std::int64_t rows = rows_of(x), width = x.extent(-1);
  std::int64_t blocks = rms_norm_blocks(rows);
  float* parts = workspace ? static_cast<float*>(workspace.data()) : nullptr;
  const auto with_weight = [&](auto type, auto weight_type) {
    using T = decltype(type);
    using WT = decltype(weight_type);
    bool vector = width % pack_width<T, WT> == 0;
    for (const Tensor& t : {dy, x, w, dresidual, dx}) vector = vector && rows_aligned(t);
    const Operands<T, WT> o{RowsOf<T>(dy), RowsOf<T>(x), RowsOf<T>(dresidual),
                            RowsOf<T>(dx), w.as<WT>(),   rstd.as<float>(),
                            rows,          width,        bool(dresidual)};
    if (rows > 0) blocks = launch(exec_of(stream), o, parts, blocks, vector);
  };
  if (x.dtype() == DType::f32) {
    with_weight(float{}, float{});
  } else if (w.dtype() == DType::f32) {
    with_weight(bf16{}, float{});
  } else {
    with_weight(bf16{}, bf16{});
  }
  with_float_type(dw.dtype(), [&](auto type) {
    using DW = decltype(type);
    combine(exec_of(stream), CombineColumns<DW>{parts, dw.as<DW>(), blocks, width, accumulate});
  });
}

}  // namespace mylos::kernels::device
