// The product of two matrices whose result is symmetric, from half or three quarters of its FLOPs where that is faster.
//
//   C_i = alpha · op(A_i) · op(B_i) + beta · Z_i, all C_i [s, s] symmetric in exact arithmetic; operands as in matmul/batched.hpp, C and Z dense.
// Mirrored, one side of the diagonal is computed and the other is its mirror image, so that C is symmetric to the bit:
//   tiles   lower triangle in tiles (symmetric_tiles.hpp: Hopper, bf16): half the FLOPs, and half of the tiles on the diagonal
//   halves  the two blocks on the diagonal (one batch of two) and the one below it: three quarters, of one matrix with an even side. On an H200 it
//           pays from kHalvesFrom on: at s = 4096 there are 384 tiles of 128 x 256 to do instead of 512
#pragma once

#include "kernels/matmul/batched.hpp"

namespace mylos::kernels::detail {

inline constexpr std::int64_t kHalvesFrom = 2048;

enum class Mirrored { no, halves, tiles, tiles_192, tiles_128 };  // tiles: of the side that is expected to be faster

// The fastest way that there is for these operands.
Mirrored best_mirroring(const Tensor& a, const Tensor& b, const MatmulOptions& options, const Batch& batch,
                        const Tensor& c);
void symmetric_product(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                       const Batch& batch, Mirrored how, const Tensor& workspace, const Tensor& c);

}  // namespace mylos::kernels::detail
