// The product of two matrices whose result is symmetric, from three quarters of its FLOPs where that is faster.
//
//   C_i = alpha · op(A_i) · op(B_i) + beta · Z_i, all C_i [s, s] symmetric in exact arithmetic; operands as in matmul/batched.hpp, C and Z dense.
// In halves, the two blocks on the diagonal (one batch of two) and the one below it are products, and the one above is its mirror image, so
// that C is symmetric to the bit. Worth it from kHalvesFrom on: at s = 4096 an H200 has 384 tiles of 128 x 256 to do instead of
// 512, and the mirror is one pass over s²/2 elements.
#pragma once

#include "kernels/matmul/batched.hpp"

namespace mylos::kernels::detail {

inline constexpr std::int64_t kHalvesFrom = 2048;

// Whether halves pay, and can be: one large matrix, whose halves keep the alignment that fast products want.
bool worth_halving(std::int64_t s, std::int64_t count);

void symmetric_product(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                       const Batch& batch, bool in_halves, const Tensor& workspace, const Tensor& c);

}  // namespace mylos::kernels::detail
