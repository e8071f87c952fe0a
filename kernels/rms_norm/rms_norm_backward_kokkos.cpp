// dx needs a sum over each row, dw one over all rows. Blocks of rows each leave their part of dw in the workspace, a
// second launch adds the parts in the order of the blocks; on a GPU, wide rows make both in one pass over dy and x.
#include "kernels/detail/for_each.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/rms_norm/rms_norm_device.hpp"

namespace mylos::kernels::device {
namespace {

constexpr std::int64_t kGpuBlocks = 528;  // four teams for each of an H200's 132 multiprocessors
constexpr std::int64_t kCpuBlocks = 64;
constexpr int kPacks = 4;  // packs of dw that a thread of the fused kernel keeps in registers

using Scratch = Kokkos::View<float*, Exec::scratch_memory_space, Kokkos::MemoryUnmanaged>;

std::int64_t rows_of(const Tensor& x) { return x.rank() == 3 ? x.extent(0) * x.extent(1) : x.extent(0); }

template <class T, class WT>
struct Operands {
  RowsOf<T> dy, x, dresidual, dx;
  const WT* w;
  const float* rstd;
  std::int64_t rows, width;
  bool with_residual;
};

template <class T, class WT>
struct RowPointers {
  const T* dy;
  const T* x;
  const T* dresidual;  // nullptr when there is none
  T* dx;
  const WT* w;
  float rstd;

  KOKKOS_FUNCTION RowPointers(const Operands<T, WT>& o, std::int64_t r)
      : dy(o.dy.row(r)),
        x(o.x.row(r)),
        dresidual(o.with_residual ? o.dresidual.row(r) : nullptr),
        dx(o.dx.row(r)),
        w(o.w),
        rstd(o.rstd[r]) {}

  // The part of sum(dy·w·x) of W elements.
  template <int W>
  MYLOS_FUNCTION float dot(std::int64_t i) const {
    const Floats<W> d = load<W>(dy + i), v = load<W>(x + i), weight = load<W>(w + i);
    float s = 0.0f;
    for (int k = 0; k < W; ++k) s += d.v[k] * weight.v[k] * v.v[k];
    return s;
  }
  // dy·x·rstd
  template <int W>
  MYLOS_FUNCTION Floats<W> weight_gradient(std::int64_t i) const {
    const Floats<W> d = load<W>(dy + i), v = load<W>(x + i);
    Floats<W> g;
    for (int k = 0; k < W; ++k) g.v[k] = d.v[k] * (v.v[k] * rstd);
    return g;
  }
  // common = rstd²·mean(dy·w·x)
  template <int W>
  MYLOS_FUNCTION void write_dx(std::int64_t i, float common) const {
    const Floats<W> d = load<W>(dy + i), v = load<W>(x + i), weight = load<W>(w + i);
    Floats<W> g{};
    if (dresidual != nullptr) g = load<W>(dresidual + i);
    for (int k = 0; k < W; ++k) g.v[k] += rstd * (d.v[k] * weight.v[k] - v.v[k] * common);
    store(dx + i, g);
  }
};

// Only dx, a row at a time.
template <class T, class WT>
struct InputGradient {
  Operands<T, WT> o;

  template <class Row>
  KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
    const RowPointers<T, WT> p(o, r);
    const float total =
        row.sum(o.width, [=](auto pack, std::int64_t i) { return p.template dot<decltype(pack)::value>(i); });
    const float common = p.rstd * p.rstd * (total / float(o.width));
    row.each(o.width, [=](auto pack, std::int64_t i) { p.template write_dx<decltype(pack)::value>(i, common); });
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
      const float total = row.sum(o.width, [=](auto, std::int64_t i) { return p.template dot<1>(i); });
      const float common = p.rstd * p.rstd * (total / float(o.width));
      MYLOS_SIMD
      for (std::int64_t i = 0; i < o.width; ++i) {
        part[i] += p.template weight_gradient<1>(i).v[0];
        p.template write_dx<1>(i, common);
      }
    }
  }
};

// dx and the block's part of dw on a GPU: each thread keeps its columns of dw in registers over all rows of the block.
template <class T, class WT, int W>
struct TeamBlock {
  Operands<T, WT> o;
  float* parts;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t b = member.league_rank(), blocks = member.league_size();
    const std::int64_t first = std::int64_t(member.team_rank()) * W, step = std::int64_t(member.team_size()) * W;
    Floats<W> sums[kPacks] = {};
    for (std::int64_t r = b * o.rows / blocks; r < (b + 1) * o.rows / blocks; ++r) {
      const RowPointers<T, WT> p(o, r);
      float total = 0.0f;
      for (int j = 0; j < kPacks; ++j) {
        const std::int64_t i = first + j * step;
        if (i >= o.width) continue;
        total += p.template dot<W>(i);
        const Floats<W> g = p.template weight_gradient<W>(i);
        for (int k = 0; k < W; ++k) sums[j].v[k] += g.v[k];
      }
      member.team_reduce(Kokkos::Sum<float>(total));
      const float common = p.rstd * p.rstd * (total / float(o.width));
      for (std::int64_t i = first; i < o.width; i += step) p.template write_dx<W>(i, common);
    }
    for (int j = 0; j < kPacks; ++j) {
      const std::int64_t i = first + j * step;
      if (i < o.width) store(parts + b * o.width + i, sums[j]);
    }
  }
};

// Only the parts of dw, for short, very wide or unaligned rows on a GPU: a team has `across` packs of columns, and
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
        const Floats<W> g = RowPointers<T, WT>(o, r).template weight_gradient<W>(i);
        for (int k = 0; k < W; ++k) sums.v[k] += g.v[k];
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

// 32 columns and 16 lanes over the blocks for each team.
template <class DW>
struct CombineTeam {
  CombineColumns<DW> c;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const int column = member.team_rank() % 32, lane = member.team_rank() / 32, lanes = member.team_size() / 32;
    const std::int64_t i = std::int64_t(member.league_rank()) * 32 + column;
    float s = 0.0f;
    if (i < c.width)
      for (std::int64_t b = lane; b < c.blocks; b += lanes) s += c.parts[b * c.width + i];
    const Scratch shared(member.team_scratch(0), std::size_t(member.team_size()));
    shared(lane * 32 + column) = s;
    member.team_barrier();
    if (lane != 0 || i >= c.width) return;
    for (int l = 1; l < lanes; ++l) s += shared(l * 32 + column);
    c.dw[i] = DW(c.accumulate ? float(c.dw[i]) + s : s);
  }
};

template <class DW>
void combine(const Exec& exec, const CombineColumns<DW>& c) {
  const char* label = "mylos::rms_norm::backward_weight";
  if constexpr (kOnGpu) {
    constexpr int kTeam = 512;
    Kokkos::parallel_for(label,
                         TeamPolicy(exec, int((c.width + 31) / 32), kTeam)
                             .set_scratch_size(0, Kokkos::PerTeam(Scratch::shmem_size(kTeam))),
                         CombineTeam<DW>{c});
  } else {
    for_each<1>(exec, label, c.width, false, c);
  }
}

template <int W, class T, class WT>
void launch_gpu(const Exec& exec, const Operands<T, WT>& o, float* parts, std::int64_t blocks, bool vector) {
  const std::int64_t packs = o.width / W;
  const int team = packs <= 256 * kPacks ? 256 : 512;
  if (W > 1 && packs > 128 && packs <= std::int64_t(team) * kPacks) {
    Kokkos::parallel_for("mylos::rms_norm::backward", TeamPolicy(exec, int(blocks), team),
                         TeamBlock<T, WT, W>{o, parts});
    return;
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
}

template <class T, class WT>
void launch(const Exec& exec, const Operands<T, WT>& o, float* parts, std::int64_t blocks, bool vector) {
  if constexpr (kOnGpu) {
    constexpr int W = pack_width<T, WT>;
    if (vector) {
      launch_gpu<W>(exec, o, parts, blocks, true);
    } else {
      launch_gpu<1>(exec, o, parts, blocks, false);
    }
  } else {
    Kokkos::parallel_for("mylos::rms_norm::backward",
                         Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec, 0, blocks),
                         CpuBlock<T, WT>{o, parts, blocks});
  }
}

}  // namespace

std::int64_t rms_norm_blocks(std::int64_t rows) { return std::min(rows, kOnGpu ? kGpuBlocks : kCpuBlocks); }

void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                       const Tensor& dresidual, bool accumulate, const Tensor& workspace, const Tensor& dx,
                       const Tensor& dw) {
  const std::int64_t rows = rows_of(x), width = x.extent(-1), blocks = rms_norm_blocks(rows);
  float* parts = workspace ? static_cast<float*>(workspace.data()) : nullptr;
  const auto with_weight = [&](auto type, auto weight_type) {
    using T = decltype(type);
    using WT = decltype(weight_type);
    bool vector = width % pack_width<T, WT> == 0;
    for (const Tensor& t : {dy, x, w, dresidual, dx}) vector = vector && rows_aligned(t);
    const Operands<T, WT> o{RowsOf<T>(dy), RowsOf<T>(x), RowsOf<T>(dresidual),
                            RowsOf<T>(dx), w.as<WT>(),   rstd.as<float>(),
                            rows,          width,        bool(dresidual)};
    if (rows > 0) launch(exec_of(stream), o, parts, blocks, vector);
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
