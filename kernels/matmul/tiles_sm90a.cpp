#include <cstdint>

#include "kernels/detail/pack.hpp"
#include "kernels/matmul/hopper_tiles.hpp"
#include "kernels/matmul/tiles.hpp"

namespace mylos::kernels::hopper {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Two words of each of two neighbouring lanes change places as a matrix is transposed. With words of columns 8 j and 8 j + 8 of a row of sums, two bf16 each, a lane has
// 8 bytes of that row then, from column 8 j + piece_column() on, and four lanes have the 32 bytes from 8 j on, which memory wants. It is its own inverse.
__device__ inline void exchange(std::uint32_t (&words)[2]) {
  const bool odd = threadIdx.x % 2;
  const std::uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? words[0] : words[1], 1);
  words[0] = odd ? got : words[0];
  words[1] = odd ? words[1] : got;
}
__device__ inline int piece_column() { return int(threadIdx.x) % 2 * 8 + int(threadIdx.x) % 4 / 2 * 4; }
inline constexpr int kPiece = 16;  // columns
#endif

// C = alpha · sums + beta · Z in bf16. Of Z a lane reads 8 bytes of a row at a time.
struct Store {
  CUtensorMap c;  // boxes of 64 x 64
  const bf16* z;
  std::int64_t z_stride;
  int rows, columns;
  float alpha, beta;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ int operand_row(int tile, int half) const { return tile * kTileColumns + half * (kTileColumns / 2); }
  __device__ void operator()(const float (&d)[128], int first, int tile, const Outbox& out) const {
    const int thread = int(threadIdx.x) % 128, top = first + thread / 32 * 16 + thread % 32 / 4,
              left = tile * kTileColumns + piece_column();
#pragma unroll
    for (int box = 0; box < kTileColumns / kBox; ++box)
      out.put(box, c, tile * kTileColumns + box * kBox, first, [&](int g, std::uint32_t(&words)[4]) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = top + 8 * i, column = left + box * kBox + kPiece * g;
          std::uint32_t add[2] = {};
          if (beta != 0.0f) {
            if (row < rows && column < columns)
              load_raw<2>(reinterpret_cast<const std::uint32_t*>(z + row * z_stride + column), add);
            exchange(add);
          }
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const float* sum = d + 32 * box + 8 * g + 4 * k + 2 * i;
            Floats<2> x{{alpha * sum[0], alpha * sum[1]}};
            if (beta != 0.0f) {
              const Floats<2> y = to_floats(Words<2, bf16>{{add[k]}});
              x = {{Kokkos::fma(beta, y.v[0], x.v[0]), Kokkos::fma(beta, y.v[1], x.v[1])}};
            }
            words[2 * k + i] = to_words<bf16>(x).v[0];
          }
        }
      });
  }
#endif
};

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// From the driver itself, so that nothing is linked against it: a build runs where there is none.
Encode encoder() {
  static const Encode found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check_launch(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result),
        "cuTensorMapEncodeTiled");
    check_plain(result == cudaDriverEntryPointSuccess,
                "the driver has no cuTensorMapEncodeTiled; tiles need one for CUDA 12");
    return reinterpret_cast<Encode>(function);
  }();
  return found;
}

}  // namespace

void check_launch(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail_plain(std::string("tiles, ") + what + ": " + cudaGetErrorString(status));
}

bool can_map(const detail::StoredMatrix& matrix, std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kMost = (std::int64_t(1) << 31) - 1024;
  return is_aligned(matrix.data) && matrix.stride % 8 == 0 && height > 0 && width > 0 && height < kMost &&
         width < kMost && matrix.stride * 2 < std::int64_t(1) << 40;
}

CUtensorMap map_of(const detail::StoredMatrix& matrix, std::int64_t height, std::int64_t width, int rows) {
  CUtensorMap map{};
  const cuuint64_t extents[] = {cuuint64_t(width), cuuint64_t(height)}, strides[] = {cuuint64_t(matrix.stride) * 2};
  const cuuint32_t box[] = {cuuint32_t(kSlice), cuuint32_t(rows)}, steps[] = {1, 1};
  const CUresult result = encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, matrix.data, extents, strides, box,
                                    steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail_plain("cuTensorMapEncodeTiled refused a matrix with status " + std::to_string(int(result)));
  return map;
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

bool has_tiles() { return hopper::is_hopper(); }

bool tiles_take(const Product& p) {
  const auto by_rows = [](const StoredMatrix& matrix) { return is_aligned(matrix.data) && matrix.stride % 8 == 0; };
  const bool a = p.transpose_a ? hopper::can_map(p.a, p.l, p.m) : hopper::can_map(p.a, p.m, p.l),
             b = p.transpose_b ? hopper::can_map(p.b, p.n, p.l) : hopper::can_map(p.b, p.l, p.n);
  return has_tiles() && p.in == DType::bf16 && p.out == DType::bf16 && p.n % 8 == 0 && a && b &&
         hopper::can_map(p.c, p.m, p.n) && (p.beta == 0.0f || by_rows(p.z));
}

void tiles_product(const Stream& stream, const Product& p, const TileOptions& options) {
  using namespace hopper;
  const Store store{.c = map_of(p.c, p.m, p.n, kBox),
                    .z = static_cast<const bf16*>(p.z.data),
                    .z_stride = p.z.stride,
                    .rows = int(p.m),
                    .columns = int(p.n),
                    .alpha = p.alpha,
                    .beta = p.beta};
  const Schedule schedule = schedule_of(p.m, (p.n + kTileColumns - 1) / kTileColumns, p.l, options);
  // Boxes of 128 rows along l, or of 64 along the operand's other side.
  const CUtensorMap a = p.transpose_a ? map_of(p.a, p.l, p.m, kSlice) : map_of(p.a, p.m, p.l, kTileRows),
                    b = p.transpose_b ? map_of(p.b, p.n, p.l, kTileColumns / 2) : map_of(p.b, p.l, p.n, kSlice);
  const cudaStream_t queue = exec_of(stream).cuda_stream();
  const auto launch = [&]<bool kAcrossA, bool kAcrossB>(std::bool_constant<kAcrossA>, std::bool_constant<kAcrossB>) {
    launch_tiles<kAcrossA, kAcrossB>(queue, a, b, schedule, store);
  };
  constexpr std::true_type across;
  constexpr std::false_type along;
  if (p.transpose_a && p.transpose_b) return launch(across, along);
  if (p.transpose_a) return launch(across, across);
  if (p.transpose_b) return launch(along, along);
  launch(along, across);
}

}  // namespace mylos::kernels::detail
