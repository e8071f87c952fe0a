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
  __device__ int operand_row(int tile, int half) const { return tile * kColumns + half * width; }
  __device__ void operator()(const float (&d)[128], int first, int tile, const Outbox& outbox) const {
    constexpr int kUp = 64, kHalves = kColumns / kBox;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int column = tile * kColumns + half * kBox;
      std::uint32_t gates[kBox / 4], ups[kBox / 4];
#pragma unroll
      for (int n = 0; n < kBox / 4; ++n) {
        const float* sum = d + 32 * half + 8 * (n / 4) + 4 * (n / 2 % 2) + 2 * (n % 2);
        gates[n] = to_words<bf16>(Floats<2>{{sum[0], sum[1]}}).v[0];
        ups[n] = to_words<bf16>(Floats<2>{{sum[kUp], sum[kUp + 1]}}).v[0];
      }
      const auto four = [](const std::uint32_t(&from)[kBox / 4]) {
        return [&from](int g, std::uint32_t(&words)[4]) {
#pragma unroll
          for (int n = 0; n < 4; ++n) words[n] = from[4 * g + n];
        };
      };
      outbox.put(0 + half, gate, column, first, four(gates));
      outbox.put(1 + half, up, column, first, four(ups));
      outbox.put(2 + half, out, column, first, [&](int g, std::uint32_t(&words)[4]) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const Floats<2> a = to_floats(Words<2, bf16>{{gates[4 * g + n]}}),
                          b = to_floats(Words<2, bf16>{{ups[4 * g + n]}});
          words[n] = to_words<bf16>(Floats<2>{{gated<bf16>(a.v[0], b.v[0]), gated<bf16>(a.v[1], b.v[1])}}).v[0];
        }
      });
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
