#include "kernels/linear_swiglu/gated_tiles.hpp"

#include "kernels/detail/pack.hpp"
#include "kernels/matmul/hopper_tiles.hpp"
#include "kernels/swiglu/silu.hpp"

namespace mylos::kernels {
namespace hopper {
namespace {

// A tile has 128 columns of the gate and the same of up: a thread has both of a column, 64 sums apart.
struct Gated {
  static constexpr int kColumns = kTileColumns / 2;

  CUtensorMap gate, up, out;  // [T, F], boxes of 64 x 64
  int width;                  // F

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // 64 columns of gate, up and their product leave from a stage.
  static constexpr int kParts = kColumns / kBox, kPartBytes = 0, kBoxOfRows = kTileRows * kBox * 2;
  static_assert(3 * kBoxOfRows <= kStageBytes);

  __device__ int operand_row(int tile, int half) const { return tile * kColumns + half * width; }
  __device__ void bring(int, std::uint32_t, int, int, std::uint32_t) const {}
  __device__ void operator()(const float (&d)[128], int part, std::uint32_t stage, int row, int tile,
                             const Warpgroup& group) const {
    constexpr int kUp = 64;
    const std::uint32_t gates = stage + group.half() * kBoxBytes, ups = gates + kBoxOfRows, outs = ups + kBoxOfRows;
#pragma unroll
    for (int g = 0; g < kBox / 16; ++g) {
      std::uint32_t a[4], b[4], c[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float* sum = d + 32 * part + 8 * g + 4 * (n / 2) + 2 * (n % 2);
        a[n] = to_words<bf16>(Floats<2>{{sum[0], sum[1]}}).v[0];
        b[n] = to_words<bf16>(Floats<2>{{sum[kUp], sum[kUp + 1]}}).v[0];
        const Floats<2> x = to_floats(Words<2, bf16>{{a[n]}}), y = to_floats(Words<2, bf16>{{b[n]}});
        c[n] = to_words<bf16>(Floats<2>{{gated<bf16>(x.v[0], y.v[0]), gated<bf16>(x.v[1], y.v[1])}}).v[0];
      }
      store_matrices(row_of_matrix(gates, g), a);
      store_matrices(row_of_matrix(ups, g), b);
      store_matrices(row_of_matrix(outs, g), c);
    }
    fence_for_stores();
    group.synchronize();
    if (group.leads()) {
      const int column = tile * kColumns + part * kBox;
      store_box(&gate, column, row, gates);
      store_box(&up, column, row, ups);
      store_box(&out, column, row, outs);
      end_stores();
    }
  }
#endif
};

}  // namespace
}  // namespace hopper

namespace device {

using namespace hopper;

bool gated_tiles_take(const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out) {
  return is_hopper() && x.dtype() == DType::bf16 && out.extent(1) % 8 == 0 && can_map(x) && can_map(w) &&
         can_map(gate_up) && can_map(out);
}

void gated_tiles(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out,
                 const detail::TileOptions& options) {
  const std::int64_t T = out.extent(0), F = out.extent(1), D = x.extent(1);
  // Halves of gate_up, each a matrix: a box at the end of the gate must not reach into up.
  const auto half = [&](std::int64_t first) {
    return map_of(detail::StoredMatrix{gate_up.as<bf16>() + first, 2 * F}, T, F, kBox);
  };
  launch_tiles<false, false>(exec_of(stream).cuda_stream(), map_of(x, kTileRows), map_of(w, kTileColumns / 2),
                             schedule_of(T, (F + Gated::kColumns - 1) / Gated::kColumns, D, options),
                             Gated{.gate = half(0), .up = half(F), .out = map_of(out, kBox), .width = int(F)});
}

}  // namespace device
}  // namespace mylos::kernels
