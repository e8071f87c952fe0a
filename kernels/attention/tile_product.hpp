// Products of small packed fp32 tiles inside one thread:  C [m, n] = A B,  += A B,  or  = C scale + A B  (by column).
//
// B and C are row-major and aligned, n a multiple of kLanes, m a multiple of 4, depth anything. A is [m, depth]
// row-major, or read transposed from [depth, m]. A block of 4 rows x 4 vectors of C stays in registers while A and B
// stream from the L1 cache: 16 independent sums hide the latency of the fused multiply-adds, and each element that is
// loaded is used 4 times.
#pragma once

#include <cstdint>

#include "kernels/attention/vector_math.hpp"

namespace mylos::kernels::attention {

enum class Into { overwrite, add, scale_then_add };

inline constexpr int kBlockRows = 4;
inline constexpr int kBlockVectors = kLanes == 16 ? 4 : 2;  // AVX-512 has 32 registers, the others 16

template <int kVectors, bool kTransposed, Into kInto>
inline void block_product(std::int64_t depth, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                          float* c, std::int64_t ldc, const float* scale) {
  Vec sum[kBlockRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kBlockRows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kInto == Into::overwrite)
        sum[i][j] = Vec{};
      else
        sum[i][j] = load(c + i * ldc + j * kLanes);
      if constexpr (kInto == Into::scale_then_add) sum[i][j] = sum[i][j] * load(scale + j * kLanes);
    }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = load(b + k * ldb + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kBlockRows; ++i) {
      const Vec x = splat(kTransposed ? a[k * lda + i] : a[i * lda + k]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] = multiply_add(x, row[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kBlockRows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) store(c + i * ldc + j * kLanes, sum[i][j]);
}

template <int kVectors, bool kTransposed, Into kInto>
inline void panel_product(std::int64_t m, std::int64_t depth, const float* a, std::int64_t lda, const float* b,
                          std::int64_t ldb, float* c, std::int64_t ldc, const float* scale) {
  for (std::int64_t i = 0; i < m; i += kBlockRows)
    block_product<kVectors, kTransposed, kInto>(depth, kTransposed ? a + i : a + i * lda, lda, b, ldb, c + i * ldc, ldc,
                                                scale);
}

template <bool kTransposed, Into kInto>
void tile_product(std::int64_t m, std::int64_t n, std::int64_t depth, const float* a, std::int64_t lda, const float* b,
                  std::int64_t ldb, float* c, std::int64_t ldc, const float* scale = nullptr) {
  for (std::int64_t j = 0; j < n; j += kBlockVectors * kLanes) {
    const float* s = scale == nullptr ? nullptr : scale + j;
    switch (n - j >= kBlockVectors * kLanes ? kBlockVectors : int((n - j) / kLanes)) {
      case 1:
        panel_product<1, kTransposed, kInto>(m, depth, a, lda, b + j, ldb, c + j, ldc, s);
        break;
      case 2:
        panel_product<2, kTransposed, kInto>(m, depth, a, lda, b + j, ldb, c + j, ldc, s);
        break;
      case 3:
        panel_product<3, kTransposed, kInto>(m, depth, a, lda, b + j, ldb, c + j, ldc, s);
        break;
      default:
        panel_product<kBlockVectors, kTransposed, kInto>(m, depth, a, lda, b + j, ldb, c + j, ldc, s);
        break;
    }
  }
}

}  // namespace mylos::kernels::attention
