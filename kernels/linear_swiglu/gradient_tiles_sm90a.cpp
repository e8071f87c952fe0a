#include "kernels/detail/pack.hpp"
#include "kernels/linear_swiglu/gated_tiles.hpp"
#include "kernels/matmul/hopper_tiles.hpp"
#include "kernels/swiglu/silu.hpp"

namespace mylos::kernels {
namespace hopper {
namespace {

// Sums are the gradient of silu(gate) · up. Gate and up come through the ring, 64 columns of each at a time, and their gradients leave from the same places.
struct Gradient {
  CUtensorMap gate, up;                    // [T, F], boxes of 64 columns, 128 rows
  CUtensorMap gate_gradient, up_gradient;  // boxes of 64 x 64

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static constexpr int kParts = kTileColumns / kBox, kHalf = kTileRows * kBox * 2, kPartBytes = 2 * kHalf;

  __device__ int operand_row(int tile, int half) const { return tile * kTileColumns + half * (kTileColumns / 2); }
  __device__ void bring(int part, std::uint32_t stage, int row, int tile, std::uint32_t barrier) const {
    const int column = tile * kTileColumns + part * kBox;
    fetch_box(stage, &gate, column, row, barrier);
    fetch_box(stage + kHalf, &up, column, row, barrier);
  }
  __device__ void operator()(const float (&d)[128], int part, std::uint32_t stage, int row, int tile,
                             const Warpgroup& group) const {
    const std::uint32_t gates = stage + group.half() * kBoxBytes, ups = gates + kHalf;
#pragma unroll
    for (int g = 0; g < kBox / 16; ++g) {
      std::uint32_t gate_words[4], up_words[4];
      load_matrices(row_of_matrix(gates, g), gate_words);
      load_matrices(row_of_matrix(ups, g), up_words);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float* sum = d + 32 * part + 8 * g + 4 * (n / 2) + 2 * (n % 2);
        const Floats<2> x = to_floats(Words<2, bf16>{{gate_words[n]}}), u = to_floats(Words<2, bf16>{{up_words[n]}}),
                        dy = to_floats(to_words<bf16>(Floats<2>{{sum[0], sum[1]}}));
        const GatedGradient a = gated_gradient<bf16>(x.v[0], u.v[0], dy.v[0]),
                            b = gated_gradient<bf16>(x.v[1], u.v[1], dy.v[1]);
        gate_words[n] = to_words<bf16>(Floats<2>{{a.gate, b.gate}}).v[0];
        up_words[n] = to_words<bf16>(Floats<2>{{a.up, b.up}}).v[0];
      }
      store_matrices(row_of_matrix(gates, g), gate_words);
      store_matrices(row_of_matrix(ups, g), up_words);
    }
    fence_for_stores();
    group.synchronize();
    if (group.leads()) {
      const int column = tile * kTileColumns + part * kBox;
      store_box(&gate_gradient, column, row, gates);
      store_box(&up_gradient, column, row, ups);
      end_stores();
    }
  }
#endif
};

}  // namespace
}  // namespace hopper

namespace device {

using namespace hopper;

bool gradient_tiles_take(const Tensor& dy, const Tensor& w, const Tensor& gate_up, const Tensor& dgate_up) {
  return is_hopper() && dy.dtype() == DType::bf16 && w.extent(1) % 8 == 0 && can_map(dy) && can_map(w) &&
         can_map(gate_up) && can_map(dgate_up);
}

void gradient_tiles(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& gate_up,
                    const Tensor& dgate_up, const detail::TileOptions& options) {
  const std::int64_t T = dy.extent(0), D = dy.extent(1), F = w.extent(1);
  // Halves, each a matrix: a box at the end of the gate must not reach into up.
  const auto half = [&](const Tensor& both, std::int64_t first, int rows) {
    return map_of(detail::StoredMatrix{both.as<bf16>() + first, 2 * F}, T, F, rows);
  };
  launch_tiles<false, true>(exec_of(stream).cuda_stream(), map_of(dy, kTileRows), map_of(w, kSlice),
                            schedule_of(T, (F + kTileColumns - 1) / kTileColumns, D, options),
                            Gradient{.gate = half(gate_up, 0, kTileRows),
                                     .up = half(gate_up, F, kTileRows),
                                     .gate_gradient = half(dgate_up, 0, kBox),
                                     .up_gradient = half(dgate_up, F, kBox)});
}

}  // namespace device
}  // namespace mylos::kernels
