#include "kernels/matmul/batched.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/matmul/providers.hpp"

namespace mylos::kernels {
namespace {

constexpr const char* kOp = "matmul_batched";

// The window `elements` further on.
Tensor moved(const Tensor& t, std::int64_t elements) {
  if (!t || elements == 0) return t;
  auto* const at = static_cast<std::byte*>(t.data()) + elements * size_of(t.dtype());
  return Tensor(at, t.dtype(), {t.extent(0), std::max(t.stride(0), t.extent(1))}).slice(1, 0, t.extent(1));
}

}  // namespace

void matmul_batched(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                    const Batch& batch, const Tensor& workspace, const Tensor& c) {
  check(batch.count >= 1, "{}: a batch of {} products; there must be at least one", kOp, batch.count);
  check(std::min({batch.a, batch.b, batch.c, batch.z}) >= 0, "{}: steps are {}, {}, {} and {}; none may be negative",
        kOp, batch.a, batch.b, batch.c, batch.z);
  check(options.provider == MatmulProvider::automatic, "{}: providers cannot be chosen; use automatic", kOp);
#if defined(MYLOS_CUBLASLT)
  const detail::Product p = detail::checked_product(a, b, options, c);
  if (batch.count > 1 && detail::on_gpu() && p.in == p.out && p.m > 0 && p.n > 0 && p.l > 0) {
    check(bool(workspace) && workspace.is_dense() && workspace.bytes() >= detail::kCublasLtWorkspace,
          "{}: the workspace {} is too small; give it matmul_workspace() = {} bytes", kOp, workspace.describe(),
          detail::kCublasLtWorkspace);
    return detail::cublaslt_batched(stream, p, batch, workspace.data(), workspace.bytes());
  }
#endif
  for (std::int64_t i = 0; i < batch.count; ++i) {
    MatmulOptions one = options;
    one.addend = moved(options.addend, i * batch.z);
    matmul(stream, moved(a, i * batch.a), moved(b, i * batch.b), one, workspace, moved(c, i * batch.c));
  }
}

}  // namespace mylos::kernels
