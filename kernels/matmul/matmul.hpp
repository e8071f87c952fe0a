// Matrix product C = alpha · op(A) · op(B) + beta · Z, row-major, accumulated in fp32 and rounded once.
//
//   op(A) [M, L], op(B) [L, N], C [M, N]; rows may be strided, the last dimension is dense. A and B share a dtype (f32
//   or bf16), C is f32 or bf16. Z, the addend, is C itself unless named: then it has C's shape and dtype, rows may be
//   strided, and it is C or shares no element with it. beta 0 never reads Z. FLOPs 2·M·N·L.
// Providers: the reference (a plain Kokkos kernel, everywhere), OpenBLAS (CPU; bf16 through fp32 panels), oneDNN (CPU,
// f32, and bf16 where the CPU has instructions for it; when built in), cuBLASLt (CUDA), tiles (our own kernel for Hopper, bf16, rows at
// multiples of 16 bytes and N of 8). `automatic` takes the fastest
// present; tests name the others to compare. A product of f32 matrices stored as bf16 is the reference's and OpenBLAS'
// only.
// cuBLASLt: tuning.hpp says which of its algorithms runs, or, under `automatic`, that tiles do. Once a kind of product has run, calls neither allocate device
// memory nor wait for the device, so that CUDA may capture them into a graph.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

enum class Transpose { no, yes };
enum class MatmulProvider { automatic, reference, blas, onednn, cublaslt, tiles };

struct MatmulOptions {
  Transpose a = Transpose::no;
  Transpose b = Transpose::no;
  float alpha = 1.0f;
  float beta = 0.0f;
  Tensor addend = {};  // Z; none is C
  MatmulProvider provider = MatmulProvider::automatic;
};

// Bytes of workspace that matmul wants for this device (the same for all shapes), 256-byte aligned.
std::int64_t matmul_workspace();
bool has_provider(MatmulProvider provider, DType dtype);
void matmul(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
            const Tensor& workspace, const Tensor& c);

// The three products of a linear layer y = x · wᵀ with w [out, in]:
// y [T, out];  dx = dy · w (beta 1 adds to dx);  dw (+)= dyᵀ · x.
// With a residual [T, out] of y's dtype, y = residual + x · wᵀ: one rounding, of the fp32 sum; y may be the residual.
void linear_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& workspace, const Tensor& y);
void linear_forward_residual(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& residual,
                             const Tensor& workspace, const Tensor& y);
void linear_backward_input(const Stream& stream, const Tensor& dy, const Tensor& w, bool accumulate,
                           const Tensor& workspace, const Tensor& dx);
void linear_backward_weight(const Stream& stream, const Tensor& dy, const Tensor& x, bool accumulate,
                            const Tensor& workspace, const Tensor& dw);

}  // namespace mylos::kernels
