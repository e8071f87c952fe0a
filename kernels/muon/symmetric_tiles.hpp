// Symmetric products on Hopper's tensor cores, lower triangle and its mirror image: about half the FLOPs of a general product.
//
//   C_i = alpha · A_i · B_iᵀ + beta · Z_i, bf16, all C_i [s, s] symmetric in exact arithmetic; A_i and B_i both stored [s, l] or both [l, s].
// Needs s a multiple of 128, l of 64, rows and steps at multiples of 16 bytes, steps of A and B at multiples of their rows, C none of the others: takes() says
// whether all hold and the device can. C is symmetric to the bit, and the same in every run: each element is one fp32 sum over l, rounded once.
#pragma once

#include "kernels/matmul/batched.hpp"

namespace mylos::kernels::device {

bool symmetric_tiles_take(const Tensor& a, const Tensor& b, const MatmulOptions& options, const Batch& batch,
                          const Tensor& c);
void symmetric_tiles(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                     const Batch& batch, const Tensor& c, int side);
// The side of tiles that is expected to be faster for `count` matrices C: 192 or 128.
int symmetric_tile_side(const Tensor& c, std::int64_t count);

}  // namespace mylos::kernels::device
