// cuBLASLt on CUDA. A row-major matrix is a column-major one transposed, so Cᵀ = op(B)ᵀ · op(A)ᵀ: B comes first, each
// operand keeps its transposition, and the row stride is the leading dimension. The library's C is Z here, its D is C. Host code: the stream is all it knows
// of CUDA.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>

#include "base/error.hpp"
#include "kernels/matmul/providers.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::kernels::detail {
namespace {

void ok(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, "matmul: {} failed with {}", call, cublasLtGetStatusString(status));
}
#define MYLOS_LT(call) ok(call, #call)

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* p) const {
    destroy(p);
  }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy<cublasLtDestroy>>;
using Descriptor = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, Destroy<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, Destroy<cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, Destroy<cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

Layout layout(std::int64_t rows, std::int64_t columns, DType dtype, std::int64_t stride) {
  cublasLtMatrixLayout_t x = nullptr;
  MYLOS_LT(cublasLtMatrixLayoutCreate(&x, type_of(dtype), std::uint64_t(columns), std::uint64_t(rows), stride));
  return Layout(x);
}

// The power of two that divides the address, up to 256 bytes: a slice of a tensor may be aligned less than a tensor,
// and the heuristic assumes 256 unless told.
std::uint32_t alignment_of(const void* p) {
  const auto address = std::bit_cast<std::uintptr_t>(p);
  return address == 0 ? 256u : std::uint32_t(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

struct Plan {
  Descriptor descriptor;
  Layout a, b, c, z;
  cublasLtMatmulAlgo_t algorithm;
};

using Key = std::array<std::int64_t, 17>;

Key key_of(const Product& p, std::int64_t workspace_bytes) {
  return {p.m,
          p.n,
          p.l,
          p.transpose_a,
          p.transpose_b,
          p.a.stride,
          p.b.stride,
          p.c.stride,
          p.z.stride,
          std::int64_t(p.in),
          std::int64_t(p.out),
          p.beta != 0.0f,
          alignment_of(p.a.data),
          alignment_of(p.b.data),
          alignment_of(p.c.data),
          alignment_of(p.z.data),
          workspace_bytes};
}

template <class T>
void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute, T value) {
  MYLOS_LT(cublasLtMatmulDescSetAttribute(d, attribute, &value, sizeof value));
}
template <class T>
void set(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  MYLOS_LT(cublasLtMatmulPreferenceSetAttribute(p, attribute, &value, sizeof value));
}

Plan make(cublasLtHandle_t handle, const Product& p, std::int64_t workspace_bytes) {
  Plan r;
  cublasLtMatmulDesc_t d = nullptr;
  // COMPUTE_32F is full fp32 for f32 operands (TF32 has a name of its own) and fp32 accumulation for bf16.
  MYLOS_LT(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  r.descriptor.reset(d);
  set(d, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(d, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  r.b = p.transpose_b ? layout(p.n, p.l, p.in, p.b.stride) : layout(p.l, p.n, p.in, p.b.stride);
  r.a = p.transpose_a ? layout(p.l, p.m, p.in, p.a.stride) : layout(p.m, p.l, p.in, p.a.stride);
  r.c = layout(p.m, p.n, p.out, p.c.stride);
  r.z = layout(p.m, p.n, p.out, p.z.stride);

  cublasLtMatmulPreference_t wish = nullptr;
  MYLOS_LT(cublasLtMatmulPreferenceCreate(&wish));
  const Preference preference(wish);
  set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(workspace_bytes));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.z.data));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, d, r.b.get(), r.a.get(), r.z.get(), r.c.get(), wish, 1, &found, &count);
  check(status == CUBLAS_STATUS_SUCCESS && count > 0,
        "matmul: cuBLASLt has no algorithm for {} [{}, {}] x [{}, {}] -> {} ({}); strides {}, {}, {}", name_of(p.in),
        p.m, p.l, p.l, p.n, name_of(p.out), cublasLtGetStatusString(status), p.a.stride, p.b.stride, p.c.stride);
  r.algorithm = found.algo;
  return r;
}

// One a thread and device: a handle may be shared, but then its cache would need a lock on every product.
struct Device {
  Handle handle;
  std::map<Key, Plan> plans;
};

// Training has a few dozen shapes; a caller whose shapes never repeat must not grow memory without bound.
constexpr std::size_t kKept = 1024;

Device& this_device() {
  thread_local std::map<int, Device> devices;
  Device& device = devices[device_index()];
  if (!device.handle) {
    cublasLtHandle_t handle = nullptr;
    MYLOS_LT(cublasLtCreate(&handle));
    device.handle.reset(handle);
  }
  return device;
}

}  // namespace

void cublaslt_product(const Stream& stream, const Product& p, void* workspace, std::int64_t workspace_bytes) {
  check(alignment_of(workspace) == 256, "matmul: the workspace at {} is aligned to {} bytes; it must be to 256",
        workspace, alignment_of(workspace));
  Device& device = this_device();
  const Key key = key_of(p, workspace_bytes);
  auto it = device.plans.find(key);
  if (it == device.plans.end()) {
    if (device.plans.size() >= kKept) device.plans.clear();
    it = device.plans.emplace(key, make(device.handle.get(), p, workspace_bytes)).first;
  }
  const Plan& plan = it->second;
  MYLOS_LT(cublasLtMatmul(device.handle.get(), plan.descriptor.get(), &p.alpha, p.b.data, plan.b.get(), p.a.data,
                          plan.a.get(), &p.beta, p.z.data, plan.z.get(), p.c.data, plan.c.get(), &plan.algorithm,
                          workspace, std::size_t(workspace_bytes),
                          static_cast<cudaStream_t>(device::native_stream(stream))));
}

}  // namespace mylos::kernels::detail
