// Symmetric products on Hopper's tensor cores, lower triangle and its mirror image: about half the FLOPs of a general product.
//
//   C_i = alpha · A_i · B_iᵀ + beta · Z_i, bf16, all C_i [s, s] symmetric in exact arithmetic; A_i and B_i both stored [s, l] or both [l, s].
// Needs s a multiple of 128, l of 64, rows and steps at multiples of 16 bytes, steps of A and B at multiples of their rows, C none of the others: takes() says
// whether all hold and the device can. C is symmetric to the bit, and the same in every run: each element is one fp32 sum over l, rounded once.
#pragma once

#include "kernels/matmul/batched.hpp"

namespace mylos::kernels::device {

// Tiles of 192 x 192 or 128 x 128 sums. `automatic`: what is expected to be faster for the side.
enum class SymmetricForm { automatic, tiles_192, tiles_128 };

struct SymmetricWay {
  SymmetricForm form = SymmetricForm::automatic;
  bool early = false;  // begins while the kernel before it ends (programmatic dependent launch)
};
// What symmetric_tiles() does, for trials by hand.
SymmetricWay& symmetric_way();

bool symmetric_tiles_take(const Tensor& a, const Tensor& b, const MatmulOptions& options, const Batch& batch,
                          const Tensor& c);
void symmetric_tiles(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                     const Batch& batch, const Tensor& c);

}  // namespace mylos::kernels::device
