// cuBLASLt on CUDA. A row-major matrix is a column-major one transposed, so Cᵀ = op(B)ᵀ · op(A)ᵀ: B comes first, each
// operand keeps its transposition, and the row stride is the leading dimension. The library's C is Z here, its D is C.
// Host code: the stream is all it knows of CUDA.
#include "kernels/matmul/cublaslt.hpp"

#include <cublasLt.h>

#include <bit>
#include <map>

#include "base/error.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::kernels::detail {
namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmBytes));

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

enum Operand { kA, kB, kC, kZ };

cudaDataType_t type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

Layout layout(std::int64_t rows, std::int64_t columns, DType dtype, std::int64_t stride) {
  cublasLtMatrixLayout_t x = nullptr;
  MYLOS_LT(cublasLtMatrixLayoutCreate(&x, type_of(dtype), std::uint64_t(columns), std::uint64_t(rows), stride));
  return Layout(x);
}

void repeat(const Layout& x, std::int64_t count, std::int64_t step) {
  const auto times = std::int32_t(count);
  MYLOS_LT(cublasLtMatrixLayoutSetAttribute(x.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &times, sizeof times));
  MYLOS_LT(cublasLtMatrixLayoutSetAttribute(x.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
}

template <class T>
void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute, T value) {
  MYLOS_LT(cublasLtMatmulDescSetAttribute(d, attribute, &value, sizeof value));
}
template <class T>
void set(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  MYLOS_LT(cublasLtMatmulPreferenceSetAttribute(p, attribute, &value, sizeof value));
}

// One a thread and device: a handle may be shared, but then its cache would need a lock on every product.
cublasLtHandle_t this_handle() {
  thread_local std::map<int, Handle> handles;
  Handle& handle = handles[device_index()];
  if (!handle) {
    cublasLtHandle_t made = nullptr;
    MYLOS_LT(cublasLtCreate(&made));
    handle.reset(made);
  }
  return handle.get();
}

}  // namespace

struct LtProduct::Impl {
  ProductShape shape;
  std::int64_t workspace_bytes;
  cublasLtHandle_t handle;
  Descriptor descriptor;
  Layout a, b, c, z;
};

LtProduct::LtProduct(const ProductShape& s, std::int64_t workspace_bytes, const Batch& batch)
    : impl_(std::make_unique<Impl>()) {
  Impl& r = *impl_;
  r.shape = s;
  r.workspace_bytes = workspace_bytes;
  r.handle = this_handle();
  cublasLtMatmulDesc_t d = nullptr;
  // COMPUTE_32F is full fp32 for f32 operands (TF32 has a name of its own) and fp32 accumulation for bf16.
  MYLOS_LT(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  r.descriptor.reset(d);
  set(d, CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(d, CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  r.b = s.transpose_b ? layout(s.n, s.l, s.in, s.stride[kB]) : layout(s.l, s.n, s.in, s.stride[kB]);
  r.a = s.transpose_a ? layout(s.l, s.m, s.in, s.stride[kA]) : layout(s.m, s.l, s.in, s.stride[kA]);
  r.c = layout(s.m, s.n, s.out, s.stride[kC]);
  r.z = layout(s.m, s.n, s.out, s.stride[kZ]);
  if (batch.count == 1) return;
  repeat(r.a, batch.count, batch.a);
  repeat(r.b, batch.count, batch.b);
  repeat(r.c, batch.count, batch.c);
  repeat(r.z, batch.count, batch.z);
}

LtProduct::~LtProduct() = default;
LtProduct::LtProduct(LtProduct&&) noexcept = default;
LtProduct& LtProduct::operator=(LtProduct&&) noexcept = default;

std::vector<AlgorithmBytes> LtProduct::candidates(int most) const {
  const Impl& r = *impl_;
  const ProductShape& s = r.shape;
  cublasLtMatmulPreference_t wish = nullptr;
  MYLOS_LT(cublasLtMatmulPreferenceCreate(&wish));
  const Preference preference(wish);
  set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(r.workspace_bytes));
  // The heuristic assumes 256 bytes unless told, and a slice of a tensor may be aligned less.
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t(s.alignment[kB]));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t(s.alignment[kA]));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t(s.alignment[kZ]));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t(s.alignment[kC]));
  // The other two ways to add up a split sum keep its parts in C's dtype.
  if (s.out == DType::bf16)
    set(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  std::vector<cublasLtMatmulHeuristicResult_t> found(std::size_t(most), cublasLtMatmulHeuristicResult_t{});
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(r.handle, r.descriptor.get(), r.b.get(), r.a.get(),
                                                               r.z.get(), r.c.get(), wish, most, found.data(), &count);
  check(status == CUBLAS_STATUS_SUCCESS && count > 0,
        "matmul: cuBLASLt has no algorithm for {} ({}); strides {}, {}, {}, {}", describe(s),
        cublasLtGetStatusString(status), s.stride[kA], s.stride[kB], s.stride[kC], s.stride[kZ]);
  std::vector<AlgorithmBytes> algorithms;
  for (int i = 0; i < count; ++i)
    if (found[std::size_t(i)].state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(std::bit_cast<AlgorithmBytes>(found[std::size_t(i)].algo));
  check(!algorithms.empty(), "matmul: cuBLASLt has no algorithm that works for {}", describe(s));
  return algorithms;
}

std::string LtProduct::refusal(const AlgorithmBytes& algorithm) const {
  const Impl& r = *impl_;
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(r.handle, r.descriptor.get(), r.b.get(), r.a.get(), r.z.get(), r.c.get(), &algo, &result);
  if (status != CUBLAS_STATUS_SUCCESS) return cublasLtGetStatusString(status);
  if (std::int64_t(result.workspaceSize) > r.workspace_bytes)
    return fmt::format("it needs {} bytes of workspace and has {}", result.workspaceSize, r.workspace_bytes);
  return "";
}

void LtProduct::run(const Stream& stream, const Product& p, const AlgorithmBytes& algorithm, void* workspace) const {
  const Impl& r = *impl_;
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  const void* const z = p.beta != 0.0f ? p.z.data : p.c.data;
  MYLOS_LT(cublasLtMatmul(r.handle, r.descriptor.get(), &p.alpha, p.b.data, r.b.get(), p.a.data, r.a.get(), &p.beta, z,
                          r.z.get(), p.c.data, r.c.get(), &algo, workspace, std::size_t(r.workspace_bytes),
                          static_cast<cudaStream_t>(device::native_stream(stream))));
}

std::string describe_algorithm(const AlgorithmBytes& algorithm) {
  const auto algo = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
  const auto get = [&]<class T>(cublasLtMatmulAlgoConfigAttributes_t attribute, T value) -> std::string {
    std::size_t written = 0;
    const bool there =
        cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS;
    return there ? fmt::format("{}", value) : "?";
  };
  return fmt::format(
      "algorithm {} tile {} stages {} cluster {} split {} reduction {} swizzle {} custom {}",
      get(CUBLASLT_ALGO_CONFIG_ID, std::int32_t()), get(CUBLASLT_ALGO_CONFIG_TILE_ID, std::uint32_t()),
      get(CUBLASLT_ALGO_CONFIG_STAGES_ID, std::uint32_t()), get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, std::uint16_t()),
      get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t()), get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, std::uint32_t()),
      get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, std::uint32_t()),
      get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, std::uint32_t()));
}

std::int64_t cublaslt_version() { return std::int64_t(cublasLtGetVersion()); }

}  // namespace mylos::kernels::detail
