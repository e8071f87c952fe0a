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

  bf16 *gate_up, *out;
  int rows, width;  // T, F

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ int operand_row(int tile, int half) const { return tile * kColumns + half * width; }
  __device__ void operator()(const float (&d)[128], int first, int tile) const {
    constexpr int kUp = 64;
    const int thread = int(threadIdx.x) % 128, top = first + thread / 32 * 16 + thread % 32 / 4,
              left = tile * kColumns + piece_column();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = top + 8 * i;
      bf16* const both = gate_up + std::int64_t(row) * 2 * width + left;
      bf16* const product = out + std::int64_t(row) * width + left;
#pragma unroll
      for (int g = 0; g < kColumns / kPiece; ++g) {
        std::uint32_t gates[2], ups[2], products[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float* sum = d + 8 * g + 4 * k + 2 * i;
          const Words<2, bf16> gate = to_words<bf16>(Floats<2>{{sum[0], sum[1]}}),
                               up = to_words<bf16>(Floats<2>{{sum[kUp], sum[kUp + 1]}});
          const Floats<2> a = to_floats(gate), b = to_floats(up);
          gates[k] = gate.v[0];
          ups[k] = up.v[0];
          products[k] = to_words<bf16>(Floats<2>{{gated<bf16>(a.v[0], b.v[0]), gated<bf16>(a.v[1], b.v[1])}}).v[0];
        }
        exchange(gates);
        exchange(ups);
        exchange(products);
        if (row < rows && left + kPiece * g < width) {
          store_raw(reinterpret_cast<std::uint32_t*>(both + kPiece * g), gates);
          store_raw(reinterpret_cast<std::uint32_t*>(both + kPiece * g + width), ups);
          store_raw(reinterpret_cast<std::uint32_t*>(product + kPiece * g), products);
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

bool gated_tiles_take(const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out) {
  return is_hopper() && x.dtype() == DType::bf16 && out.extent(1) % 8 == 0 && can_map(x) && can_map(w) &&
         can_map(gate_up) && can_map(out);
}

void gated_tiles(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out,
                 const detail::TileOptions& options) {
  const std::int64_t T = out.extent(0), F = out.extent(1), D = x.extent(1);
  launch_tiles<false, false>(
      exec_of(stream).cuda_stream(), map_of(x, kTileRows), map_of(w, kTileColumns / 2),
      schedule_of(T, (F + Gated::kColumns - 1) / Gated::kColumns, D, options),
      Gated{.gate_up = gate_up.as<bf16>(), .out = out.as<bf16>(), .rows = int(T), .width = int(F)});
}

}  // namespace device
}  // namespace mylos::kernels
