#include "kernels/detail/pack.hpp"
#include "kernels/linear_swiglu/gated_tiles.hpp"
#include "kernels/matmul/hopper_tiles.hpp"
#include "kernels/swiglu/silu.hpp"

namespace mylos::kernels {
namespace hopper {
namespace {

// Sums are the gradient of silu(gate) · up. Gate and up are on their way to the L2 cache before the sums are done; a thread then reads and writes pieces of 8 bytes of
// both, eight of a row together, so that one wait serves them all.
struct Gradient {
  CUtensorMap gate_up_map;  // boxes of 64 columns, 128 rows
  const bf16* gate_up;
  bf16* gradient;
  int rows, width;  // T, F

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ int operand_row(int tile, int half) const { return tile * kTileColumns + half * (kTileColumns / 2); }
  __device__ void bring_ahead(int row, int tile, int part) const {
    prefetch_box(&gate_up_map, tile * kTileColumns + part % 4 * 64 + part / 4 * width, row);
  }
  __device__ void operator()(const float (&d)[128], int first, int tile, const Outbox&) const {
    constexpr int kGroup = 8;  // pieces of a row under way at a time
    const int thread = int(threadIdx.x) % 128, top = first + thread / 32 * 16 + thread % 32 / 4,
              left = tile * kTileColumns + piece_column();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = top + 8 * i;
      const std::int64_t begin = std::int64_t(row) * 2 * width + left;
      const auto inside = [&](int piece) { return row < rows && left + kPiece * piece < width; };
#pragma unroll
      for (int group = 0; group < kTileColumns / kPiece; group += kGroup) {
        std::uint32_t gates[kGroup][2], ups[kGroup][2];
#pragma unroll
        for (int n = 0; n < kGroup; ++n) {
          gates[n][0] = gates[n][1] = ups[n][0] = ups[n][1] = 0;
          if (inside(group + n)) {
            const bf16* const from = gate_up + begin + kPiece * (group + n);
            load_raw<2>(reinterpret_cast<const std::uint32_t*>(from), gates[n]);
            load_raw<2>(reinterpret_cast<const std::uint32_t*>(from + width), ups[n]);
          }
        }
#pragma unroll
        for (int n = 0; n < kGroup; ++n) {
          exchange(gates[n]);
          exchange(ups[n]);
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const float* sum = d + 8 * (group + n) + 4 * k + 2 * i;
            const Floats<2> g = to_floats(Words<2, bf16>{{gates[n][k]}}), u = to_floats(Words<2, bf16>{{ups[n][k]}}),
                            dy = to_floats(to_words<bf16>(Floats<2>{{sum[0], sum[1]}}));
            const GatedGradient a = gated_gradient<bf16>(g.v[0], u.v[0], dy.v[0]),
                                b = gated_gradient<bf16>(g.v[1], u.v[1], dy.v[1]);
            gates[n][k] = to_words<bf16>(Floats<2>{{a.gate, b.gate}}).v[0];
            ups[n][k] = to_words<bf16>(Floats<2>{{a.up, b.up}}).v[0];
          }
          exchange(gates[n]);
          exchange(ups[n]);
          if (inside(group + n)) {
            bf16* const to = gradient + begin + kPiece * (group + n);
            store_raw(reinterpret_cast<std::uint32_t*>(to), gates[n]);
            store_raw(reinterpret_cast<std::uint32_t*>(to + width), ups[n]);
          }
        }
      }
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
  launch_tiles<false, true>(exec_of(stream).cuda_stream(), map_of(dy, kTileRows), map_of(w, kSlice),
                            schedule_of(T, (F + kTileColumns - 1) / kTileColumns, D, options),
                            Gradient{.gate_up_map = map_of(gate_up, kTileRows),
                                     .gate_up = gate_up.as<bf16>(),
                                     .gradient = dgate_up.as<bf16>(),
                                     .rows = int(T),
                                     .width = int(F)});
}

}  // namespace device
}  // namespace mylos::kernels
