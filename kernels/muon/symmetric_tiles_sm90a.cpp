#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/muon/symmetric_kernel.hpp"
#include "kernels/muon/symmetric_tiles.hpp"

namespace mylos::kernels::hopper::triangle {
namespace {

// The matrices of a batch below each other: what lies below one is the next, and no part of a result.
CUtensorMap operand_map(const Tensor& t, std::int64_t count, std::int64_t step, int rows) {
  const std::int64_t height = (count - 1) * (step / t.stride(0)) + t.extent(0);
  return map_of(t.data(), std::array{t.extent(1), height}, std::array{t.stride(0)}, std::array{kSlice, rows});
}
// Behind each other: nothing is written below one.
CUtensorMap square_map(const Tensor& t, std::int64_t count, std::int64_t step, int rows) {
  const std::int64_t s = t.extent(0), next = std::max(step, s * s);
  return map_of(t.data(), std::array{s, s, count, std::int64_t(1)}, std::array{s, next, next * count},
                std::array{kBox, rows});
}

template <int kSide>
void run(cudaStream_t stream, const Tensor& a, const Tensor& b, const MatmulOptions& options, const Batch& batch,
         const Tensor& c) {
  const bool across = options.a == Transpose::yes;
  const int strips = int((c.extent(0) + kSide - 1) / kSide), pairs = detail::pairs_of_triangle(strips);
  const Tensor& z = options.beta != 0.0f ? options.addend : c;
  const Symmetric s{.a = operand_map(a, batch.count, batch.a, across ? kBox : kSide),
                    .b = operand_map(b, batch.count, batch.b, across ? kBox / 2 : kSide / 2),
                    .c = square_map(c, batch.count, batch.c, kBox),
                    .z = square_map(z, batch.count, options.beta != 0.0f ? batch.z : batch.c, kSide),
                    .side = int(c.extent(0)),
                    .strips = strips,
                    .pairs = pairs,
                    .tiles = pairs * int(batch.count),
                    .slices = int(a.extent(across ? 0 : 1) / kSlice),
                    .a_step = int(batch.a / a.stride(0)),
                    .b_step = int(batch.b / b.stride(0)),
                    .alpha = options.alpha,
                    .beta = options.beta};
  if (across)
    launch<kSide, true>(stream, s);
  else
    launch<kSide, false>(stream, s);
}

}  // namespace
}  // namespace mylos::kernels::hopper::triangle

namespace mylos::kernels::device {

// Waves of clusters, in products of a multiprocessor: 66 clusters with a tile of 192 each, or 132 of 128, which reach 0.92 of its speed
// (H200: 8 x [2048, 2048] 121 us against 131, 2 x [4096, 4096] 231 against 214, 48 x [768, 768] 58 against 57).
int symmetric_tile_side(const Tensor& c, std::int64_t count) {
  const auto waves = [&](int tile, int clusters) {
    const std::int64_t pairs = count * detail::pairs_of_triangle(int((c.extent(0) + tile - 1) / tile));
    return (pairs + clusters - 1) / clusters;
  };
  return 2.25 * double(waves(192, 66)) <= 2.0 / 0.92 * double(waves(128, 132)) ? 192 : 128;
}

bool symmetric_tiles_take(const Tensor& a, const Tensor& b, const MatmulOptions& options, const Batch& batch,
                          const Tensor& c) {
  constexpr std::int64_t kWhole = 128, kMost = (std::int64_t(1) << 31) - 1024;
  const Tensor& z = options.addend ? options.addend : c;
  const bool along_s = options.a == Transpose::yes;
  const bool known = along_s == (options.b == Transpose::no) && c.dtype() == DType::bf16 && a.dtype() == DType::bf16 &&
                     b.dtype() == DType::bf16;
  const std::int64_t length = a.extent(along_s ? 0 : 1);
  const bool apart = c.data() != a.data() && c.data() != b.data() && (!options.addend || c.data() != z.data());
  const bool whole =
      c.extent(0) % kWhole == 0 && length % hopper::triangle::kSlice == 0 && length > 0 && c.is_dense() && z.is_dense();
  const auto below = [&](const Tensor& t, std::int64_t step) {
    return step % t.stride(0) == 0 && batch.count * (step / t.stride(0)) + t.extent(0) < kMost;
  };
  return known && apart && whole && hopper::is_hopper() && rows_aligned(a) && rows_aligned(b) && rows_aligned(c) &&
         rows_aligned(z) && (batch.a | batch.b | batch.c | batch.z) % 8 == 0 && below(a, batch.a) &&
         below(b, batch.b) && (options.beta == 0.0f || options.addend);
}

void symmetric_tiles(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                     const Batch& batch, const Tensor& c, int side) {
  check_plain(side == 192 || side == 128, "symmetric_tiles: tiles have a side of 192 or 128");
  const auto run = side == 192 ? hopper::triangle::run<192> : hopper::triangle::run<128>;
  run(exec_of(stream).cuda_stream(), a, b, options, batch, c);
}

}  // namespace mylos::kernels::device
