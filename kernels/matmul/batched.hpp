// Products of equal shape side by side: C_i = alpha · op(A_i) · op(B_i) + beta · Z_i for i = 0 ... count - 1.
//
// a, b, c and the addend are the first matrices, as in matmul.hpp; the next ones lie Batch's numbers of elements further. Small products
// do not fill a GPU one by one: there a batch is one launch of cuBLASLt, with the library's first choice of an algorithm (it is
// not tuned, and not in products_in_use()). A batch of one is matmul(), and on a CPU so is each of them in turn.
// Error: what matmul refuses, a count below 1, a negative step, a provider other than `automatic`.
#pragma once

#include "kernels/matmul/matmul.hpp"

namespace mylos::kernels {

struct Batch {
  std::int64_t count = 1;
  std::int64_t a = 0, b = 0, c = 0, z = 0;  // z of options.addend; without one it is c's
};

void matmul_batched(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                    const Batch& batch, const Tensor& workspace, const Tensor& c);

}  // namespace mylos::kernels
