#include <array>
#include <cstdint>

#include "kernels/detail/pack.hpp"
#include "kernels/matmul/hopper_tiles.hpp"
#include "kernels/matmul/tiles.hpp"

namespace mylos::kernels::hopper {
namespace {

// C = alpha · sums + beta · Z in bf16, or without the addend. Z comes through the ring of stages, and results leave from where it lay.
template <bool kAdds>
struct Store {
  CUtensorMap c, z;  // boxes of 64 columns: 64 rows of C, 128 of Z
  float alpha, beta;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static constexpr int kParts = 2, kBoxesOfPart = kTileColumns / kBox / kParts, kBoxOfRows = kTileRows * kBox * 2,
                       kPartBytes = kAdds ? kBoxesOfPart * kBoxOfRows : 0;

  __device__ int operand_row(int tile, int half) const { return tile * kTileColumns + half * (kTileColumns / 2); }
  __device__ static int column_of(int tile, int part, int box) {
    return tile * kTileColumns + (part * kBoxesOfPart + box) * kBox;
  }
  __device__ void bring(int part, std::uint32_t stage, int row, int tile, std::uint32_t barrier) const {
    if constexpr (kAdds)
      for (int box = 0; box < kBoxesOfPart; ++box)
        fetch_box(stage + box * kBoxOfRows, &z, column_of(tile, part, box), row, barrier);
  }
  __device__ void operator()(const float (&d)[128], int part, std::uint32_t stage, int row, int tile,
                             const Warpgroup& group) const {
    const std::uint32_t first = stage + group.half() * kBoxBytes;
#pragma unroll
    for (int box = 0; box < kBoxesOfPart; ++box)
#pragma unroll
      for (int g = 0; g < kBox / 16; ++g) {
        const std::uint32_t place = row_of_matrix(first + box * kBoxOfRows, g);
        std::uint32_t words[4];
        if constexpr (kAdds) load_matrices(place, words);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float* sum = d + 32 * (part * kBoxesOfPart + box) + 8 * g + 4 * (n / 2) + 2 * (n % 2);
          Floats<2> x{{alpha * sum[0], alpha * sum[1]}};
          if constexpr (kAdds) {
            const Floats<2> y = to_floats(Words<2, bf16>{{words[n]}});
            x = {{Kokkos::fma(beta, y.v[0], x.v[0]), Kokkos::fma(beta, y.v[1], x.v[1])}};
          }
          words[n] = to_words<bf16>(x).v[0];
        }
        store_matrices(place, words);
      }
    fence_for_stores();
    group.synchronize();
    if (group.leads()) {
      for (int box = 0; box < kBoxesOfPart; ++box)
        store_box(&c, column_of(tile, part, box), row, first + box * kBoxOfRows);
      end_stores();
    }
  }
#endif
};

}  // namespace

bool can_map(const detail::StoredMatrix& matrix, std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kMost = (std::int64_t(1) << 31) - 1024;
  return is_aligned(matrix.data) && matrix.stride % 8 == 0 && height > 0 && width > 0 && height < kMost &&
         width < kMost && matrix.stride * 2 < std::int64_t(1) << 40;
}

CUtensorMap map_of(const detail::StoredMatrix& matrix, std::int64_t height, std::int64_t width, int rows) {
  return map_of(matrix.data, std::array{width, height}, std::array{matrix.stride}, std::array{kSlice, rows});
}

namespace {
detail::StoredMatrix stored(const Tensor& dense) { return {dense.data(), dense.extent(1)}; }
}  // namespace
CUtensorMap map_of(const Tensor& dense, int rows) {
  return map_of(stored(dense), dense.extent(0), dense.extent(1), rows);
}
bool can_map(const Tensor& dense) { return can_map(stored(dense), dense.extent(0), dense.extent(1)); }

}  // namespace mylos::kernels::hopper

namespace mylos::kernels::detail {

std::string describe(const TileOptions& options) {
  return "tiles strip " + std::to_string(options.strip) + " lag " + std::to_string(options.lag);
}

bool has_tiles() { return hopper::is_hopper(); }

bool tiles_take(const Product& p) {
  const bool a = p.transpose_a ? hopper::can_map(p.a, p.l, p.m) : hopper::can_map(p.a, p.m, p.l),
             b = p.transpose_b ? hopper::can_map(p.b, p.n, p.l) : hopper::can_map(p.b, p.l, p.n);
  return has_tiles() && p.in == DType::bf16 && p.out == DType::bf16 && p.n % 8 == 0 && a && b &&
         hopper::can_map(p.c, p.m, p.n) && (p.beta == 0.0f || hopper::can_map(p.z, p.m, p.n));
}

void tiles_product(const Stream& stream, const Product& p, const TileOptions& options) {
  using namespace hopper;
  const Schedule schedule = schedule_of(p.m, (p.n + kTileColumns - 1) / kTileColumns, p.l, options);
  // Boxes of 128 rows along l, or of 64 along the operand's other side.
  const CUtensorMap a = p.transpose_a ? map_of(p.a, p.l, p.m, kSlice) : map_of(p.a, p.m, p.l, kTileRows),
                    b = p.transpose_b ? map_of(p.b, p.n, p.l, kTileColumns / 2) : map_of(p.b, p.l, p.n, kSlice);
  const cudaStream_t queue = exec_of(stream).cuda_stream();
  const CUtensorMap c = map_of(p.c, p.m, p.n, kBox), z = p.beta == 0.0f ? c : map_of(p.z, p.m, p.n, kTileRows);
  const auto launch = [&]<bool kAcrossA, bool kAcrossB>(std::bool_constant<kAcrossA>, std::bool_constant<kAcrossB>) {
    if (p.beta == 0.0f) {
      launch_tiles<kAcrossA, kAcrossB>(queue, a, b, schedule, Store<false>{c, z, p.alpha, p.beta});
    } else {
      launch_tiles<kAcrossA, kAcrossB>(queue, a, b, schedule, Store<true>{c, z, p.alpha, p.beta});
    }
  };
  constexpr std::true_type across;
  constexpr std::false_type along;
  if (p.transpose_a && p.transpose_b) return launch(across, along);
  if (p.transpose_a) return launch(across, across);
  if (p.transpose_b) return launch(along, along);
  launch(along, across);
}

}  // namespace mylos::kernels::detail
