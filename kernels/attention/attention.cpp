#include "kernels/attention/attention.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/attention/providers.hpp"

namespace mylos::kernels {
namespace attention {
namespace {

constexpr const char* kOp = "attention";

void check_shape(const AttentionShape& s) {
  check(s.batch >= 1 && s.sequence >= 1 && s.heads >= 1 && s.kv_heads >= 1 && s.head_size >= 1,
        "attention: batch {}, sequence {}, heads {}, kv_heads {}, head_size {}; each must be at least 1", s.batch,
        s.sequence, s.heads, s.kv_heads, s.head_size);
  check(s.heads % s.kv_heads == 0, "attention: {} heads over {} key/value heads; heads must be a multiple of kv_heads",
        s.heads, s.kv_heads);
  check(s.head_size <= kMaxHeadSize, "attention: head size {} is above {}", s.head_size, kMaxHeadSize);
  check(s.sequence < (std::int64_t(1) << 31) - 64,
        "attention: sequence {} does not fit the i32 positions of document_start", s.sequence);
}

AttentionShape shape_of(const Tensor& q, const Tensor& k) {
  check(q.rank() == 4 && k.rank() == 4, "attention: q {} and k {} must be [B, S, heads, h]", q.describe(),
        k.describe());
  check(q.dtype() == DType::f32 || q.dtype() == DType::bf16, "attention: q is {}; use f32 or bf16", q.describe());
  const AttentionShape s{q.extent(0), q.extent(1), q.extent(2), k.extent(2), q.extent(3)};
  check_shape(s);
  return s;
}

Window window(const char* name, const Tensor& t, DType dtype, const AttentionShape& s, std::int64_t heads) {
  expect(kOp, name, t, dtype, {s.batch, s.sequence, heads, s.head_size});
  return {t.data(), t.stride(0), t.stride(1), t.stride(2)};
}

bool wants_alignment(Provider p) { return p == Provider::tiles || p == Provider::warpgroups; }
void expect_aligned(const Window& w) {
  check(reinterpret_cast<std::uintptr_t>(w.data) % 16 == 0 && (w.batch | w.token | w.head) % 8 == 0,
        "attention: a tensor at {} with strides {}, {}, {} of 2 bytes; tensor cores want rows aligned to 16 bytes",
        w.data, w.batch, w.token, w.head);
}

Arguments arguments(Provider provider, bool backward, const AttentionOptions& options, const Tensor& q, const Tensor& k,
                    const Tensor& v, const AttentionDocuments& documents, const Tensor& workspace, const Tensor& out,
                    const Tensor& lse) {
  Arguments a;
  a.shape = shape_of(q, k);
  a.dtype = q.dtype();
  a.options = options;
  const AttentionShape& s = a.shape;
  check(has_provider(provider, s, a.dtype),
        "attention: provider {} cannot do {} heads of {} in {}{} on this device or in this build", int(provider),
        s.heads, s.head_size, name_of(a.dtype), documents ? " with documents" : "");
  a.q = window("q", q, a.dtype, s, s.heads);
  a.k = window("k", k, a.dtype, s, s.kv_heads);
  a.v = window("v", v, a.dtype, s, s.kv_heads);
  a.out = window("out", out, a.dtype, s, s.heads);
  expect(kOp, "lse", lse, DType::f32, {s.batch, s.heads, s.sequence});
  expect_dense(kOp, "lse", lse);
  a.lse = lse.as<float>();
  if (documents) {
    expect(kOp, "document_start", documents.start, DType::i32, {s.batch, s.sequence});
    expect_dense(kOp, "document_start", documents.start);
    a.document_start = documents.start.as<std::int32_t>();
    a.bucket = documents.bucket;
    if (a.bucket) a.tables = documents.tables.data();
  }
  a.workspace_bytes = workspace ? workspace.bytes() : 0;
  if (workspace) expect_dense(kOp, "workspace", workspace);
  expect_room(a, provider == Provider::cudnn || (!backward && provider == Provider::warpgroups)
                     ? 0
                     : workspace_of(provider, s, backward, options));
  a.workspace = workspace.data();
  if (wants_alignment(provider))
    for (const Window& w : {a.q, a.k, a.v, a.out}) expect_aligned(w);
  return a;
}

}  // namespace

bool has_provider(Provider provider, const AttentionShape& shape, DType dtype) {
  switch (provider) {
    case Provider::portable:
      return true;
    case Provider::cpu:
      return !device_info().is_gpu;
    case Provider::cudnn:
#if defined(MYLOS_CUDNN)
      return device_info().is_gpu && cudnn::supports(shape, dtype);
#endif
      break;
    case Provider::tiles:
      return tiles::supports(shape, dtype);
    case Provider::warpgroups:
#if defined(MYLOS_WARPGROUPS)
      return has_provider(Provider::cudnn, shape, dtype) && warpgroups::supports(shape, dtype);
#endif
      break;
  }
  return false;
}

bool tiles::supports(const AttentionShape& s, DType dtype) {
  return dtype == DType::bf16 && (s.head_size == 64 || s.head_size == 128);
}

void expect_room(const Arguments& a, std::int64_t bytes) {
  check(a.workspace_bytes >= bytes, "attention: workspace of {} bytes, {} needed; ask attention_workspace()",
        a.workspace_bytes, bytes);
}

Provider default_provider(const AttentionShape& shape, DType dtype, const AttentionDocuments& documents) {
  if (has_provider(Provider::cpu, shape, dtype)) return Provider::cpu;
  const bool tables = !documents || documents.bucket;
  if (tables && has_provider(Provider::cudnn, shape, dtype)) return Provider::cudnn;
  return has_provider(Provider::tiles, shape, dtype) ? Provider::tiles : Provider::portable;
}

Provider backward_provider(const AttentionShape& shape, DType dtype, const AttentionDocuments& documents,
                           const AttentionOptions& options) {
  const bool takes = !documents && !options.deterministic && shape.sequence >= warpgroups::faster_from(shape.head_size);
  return takes && has_provider(Provider::warpgroups, shape, dtype) ? Provider::warpgroups
                                                                   : default_provider(shape, dtype, documents);
}

std::int64_t workspace_of(Provider provider, const AttentionShape& shape, bool backward,
                          [[maybe_unused]] const AttentionOptions& options) {
  check_shape(shape);
  switch (provider) {
    case Provider::cpu:
      return cpu::workspace_bytes(shape, backward, device_info().concurrency);
#if defined(MYLOS_CUDNN)
    case Provider::cudnn:
      return cudnn::workspace_bytes(shape, backward, options);
#endif
#if defined(MYLOS_WARPGROUPS)
    case Provider::warpgroups:
      return backward ? warpgroups::workspace_bytes(shape) : cudnn::workspace_bytes(shape, false, options);
#endif
    default:
      return portable::workspace_bytes(shape, backward);
  }
}

void forward_with(Provider provider, const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                  const AttentionDocuments& documents, const Tensor& workspace, const Tensor& out, const Tensor& lse) {
  const Arguments a = arguments(provider, false, {}, q, k, v, documents, workspace, out, lse);
  switch (provider) {
    case Provider::cpu:
      return cpu::forward(stream, a);
    case Provider::tiles:
      return tiles::forward(stream, a);
#if defined(MYLOS_CUDNN)
    case Provider::cudnn:
    case Provider::warpgroups:
      return cudnn::forward(stream, a);
#endif
    default:
      return portable::forward(stream, a);
  }
}

void backward_with(Provider provider, const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionDocuments& documents, const Tensor& out, const Tensor& lse, const Tensor& dout,
                   const Tensor& workspace, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                   const AttentionOptions& options) {
  Arguments a = arguments(provider, true, options, q, k, v, documents, workspace, out, lse);
  const AttentionShape& s = a.shape;
  a.dout = window("dout", dout, a.dtype, s, s.heads);
  a.dq = window("dq", dq, a.dtype, s, s.heads);
  a.dk = window("dk", dk, a.dtype, s, s.kv_heads);
  a.dv = window("dv", dv, a.dtype, s, s.kv_heads);
  if (wants_alignment(provider))
    for (const Window& w : {a.dout, a.dq, a.dk, a.dv}) expect_aligned(w);
  switch (provider) {
    case Provider::cpu:
      return cpu::backward(stream, a);
    case Provider::tiles:
      return tiles::backward(stream, a);
#if defined(MYLOS_CUDNN)
    case Provider::cudnn:
      return cudnn::backward(stream, a);
#endif
#if defined(MYLOS_WARPGROUPS)
    case Provider::warpgroups:
      return warpgroups::backward(stream, a);
#endif
    default:
      return portable::backward(stream, a);
  }
}

}  // namespace attention

std::int64_t attention_workspace(const AttentionShape& shape, DType dtype, bool backward,
                                 const AttentionOptions& options) {
  using attention::Provider;
  const Provider provider = attention::default_provider(shape, dtype, {});
  std::int64_t bytes = 0;
  const auto take = [&](Provider p) { bytes = std::max(bytes, attention::workspace_of(p, shape, backward, options)); };
  const Provider of_plain = backward ? attention::backward_provider(shape, dtype, {}, options) : provider;
  take(of_plain);
  if (!options.documents) return bytes;
  take(provider);
  if (provider == Provider::cudnn) take(Provider::portable);  // a batch may come without a bucket
  return bytes;
}

void attention_forward(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionDocuments& documents, const Tensor& workspace, const Tensor& out,
                       const Tensor& lse) {
  const auto provider = attention::default_provider(attention::shape_of(q, k), q.dtype(), documents);
  attention::forward_with(provider, stream, q, k, v, documents, workspace, out, lse);
}

void attention_backward(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionDocuments& documents, const Tensor& out, const Tensor& lse, const Tensor& dout,
                        const Tensor& workspace, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                        const AttentionOptions& options) {
  const auto provider = attention::backward_provider(attention::shape_of(q, k), q.dtype(), documents, options);
  attention::backward_with(provider, stream, q, k, v, documents, out, lse, dout, workspace, dq, dk, dv, options);
}

}  // namespace mylos::kernels
