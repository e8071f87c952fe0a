// What matmul.cpp hands to a provider: one checked product, and the providers themselves. Not for use outside this
// folder.
//
// A stored matrix is row-major with `stride` elements from row to row; a transposed operand is stored [L, M] (A) or
// [N, L] (B).
// Every provider computes C = alpha · op(A) · op(B) + beta · Z for M, N, L >= 1 and never reads Z when beta is 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul/batched.hpp"
#include "kernels/matmul/tuning.hpp"

namespace mylos::kernels::detail {

struct StoredMatrix {
  void* data;
  std::int64_t stride;
};

struct Product {
  std::int64_t m, n, l;
  bool transpose_a, transpose_b;
  float alpha, beta;
  DType in, out;
  StoredMatrix a, b, c, z;  // z is c where nothing else is added
};

// Panels of 1024 x 1024 fp32 for A, B and C: bf16 products without a bf16 library convert through them (12 MiB).
inline constexpr std::int64_t kPanelSide = 1024;
inline constexpr std::int64_t kPanelBytes = kPanelSide * kPanelSide * std::int64_t(sizeof(float));
// What NVIDIA recommends for cuBLASLt on Hopper: 32 MiB, 256-byte aligned.
inline constexpr std::int64_t kCublasLtWorkspace = std::int64_t(32) << 20;

// matmul.cpp: an Error unless the operands make a product
Product checked_product(const Tensor& a, const Tensor& b, const MatmulOptions& options, const Tensor& c);

// product_shape.cpp: what plans are kept by
ProductShape shape_of(const Product& p);
std::int64_t alignment_of(const void* p);  // the power of two, up to 256, that divides the address

// matmul_kokkos.cpp
bool on_gpu();
int device_index();  // the CUDA device of this process; 0 on a CPU
void reference_product(const Stream& stream, const Product& p);
// C = beta · Z, what a product with L = 0 is.
void scale(const Stream& stream, const Product& p);
// The same product with Z in C, for libraries that add in place only: one more pass where Z is elsewhere.
Product with_addend_in_place(const Stream& stream, Product p);
// panel [rows, columns] (dense f32) = bf16 matrix.
void widen_panel(const Stream& stream, StoredMatrix source, std::int64_t rows, std::int64_t columns, float* panel);
// bf16 matrix = panel + beta · addend.
void narrow_panel(const Stream& stream, const float* panel, std::int64_t rows, std::int64_t columns, float beta,
                  StoredMatrix addend, StoredMatrix target);

// blas.cpp, with MYLOS_BLAS: f32 directly; bf16 operands, and a bf16 C, through the panels.
bool blas_needs_panels(const Product& p);
void blas_product(const Stream& stream, const Product& p, void* panels);

// onednn.cpp, with MYLOS_ONEDNN
bool onednn_is_fast(DType dtype);  // this CPU has instructions for it
void onednn_product(const Stream& stream, const Product& p);

// cublaslt_product.cpp, with MYLOS_CUBLASLT; or_tiles: where a product is pinned to tiles, they do it
void cublaslt_product(const Stream& stream, const Product& p, bool or_tiles, void* workspace,
                      std::int64_t workspace_bytes);
// cublaslt_batched.cpp, with MYLOS_CUBLASLT; p is the first product
void cublaslt_batched(const Stream& stream, const Product& p, const Batch& batch, void* workspace,
                      std::int64_t workspace_bytes);

}  // namespace mylos::kernels::detail
