#include "kernels/attention/attention.hpp"

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
  check(s.head_size <= kMaxHeadSize, "attention: head size {} is above {}; use more heads", s.head_size, kMaxHeadSize);
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

Arguments arguments(Provider provider, bool backward, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Tensor& document_start, const Tensor& workspace, const Tensor& out, const Tensor& lse) {
  Arguments a;
  a.shape = shape_of(q, k);
  a.dtype = q.dtype();
  const AttentionShape& s = a.shape;
  a.q = window("q", q, a.dtype, s, s.heads);
  a.k = window("k", k, a.dtype, s, s.kv_heads);
  a.v = window("v", v, a.dtype, s, s.kv_heads);
  a.out = window("out", out, a.dtype, s, s.heads);
  expect(kOp, "lse", lse, DType::f32, {s.batch, s.heads, s.sequence});
  expect_dense(kOp, "lse", lse);
  a.lse = lse.as<float>();
  if (document_start) {
    expect(kOp, "document_start", document_start, DType::i32, {s.batch, s.sequence});
    expect_dense(kOp, "document_start", document_start);
    a.document_start = document_start.as<std::int32_t>();
  }
  const std::int64_t wanted = workspace_of(provider, s, backward);
  a.workspace_bytes = workspace ? workspace.bytes() : 0;
  if (workspace) expect_dense(kOp, "workspace", workspace);
  check(a.workspace_bytes >= wanted, "attention: workspace of {} bytes, {} needed; ask attention_workspace()",
        a.workspace_bytes, wanted);
  a.workspace = workspace.data();
  return a;
}

}  // namespace

Provider default_provider() { return device_info().is_gpu ? Provider::portable : Provider::cpu; }

std::int64_t workspace_of(Provider provider, const AttentionShape& shape, bool backward) {
  check_shape(shape);
  return provider == Provider::cpu ? cpu::workspace_bytes(shape, backward, device_info().concurrency)
                                   : portable::workspace_bytes(shape, backward);
}

void forward_with(Provider provider, const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& document_start, const Tensor& workspace, const Tensor& out, const Tensor& lse) {
  const Arguments a = arguments(provider, false, q, k, v, document_start, workspace, out, lse);
  provider == Provider::cpu ? cpu::forward(stream, a) : portable::forward(stream, a);
}

void backward_with(Provider provider, const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& document_start, const Tensor& out, const Tensor& lse, const Tensor& dout,
                   const Tensor& workspace, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  Arguments a = arguments(provider, true, q, k, v, document_start, workspace, out, lse);
  const AttentionShape& s = a.shape;
  a.dout = window("dout", dout, a.dtype, s, s.heads);
  a.dq = window("dq", dq, a.dtype, s, s.heads);
  a.dk = window("dk", dk, a.dtype, s, s.kv_heads);
  a.dv = window("dv", dv, a.dtype, s, s.kv_heads);
  provider == Provider::cpu ? cpu::backward(stream, a) : portable::backward(stream, a);
}

}  // namespace attention

std::int64_t attention_workspace(const AttentionShape& shape, DType, bool backward) {
  return attention::workspace_of(attention::default_provider(), shape, backward);
}

void attention_forward(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& document_start, const Tensor& workspace, const Tensor& out, const Tensor& lse) {
  attention::forward_with(attention::default_provider(), stream, q, k, v, document_start, workspace, out, lse);
}

void attention_backward(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& document_start, const Tensor& out, const Tensor& lse, const Tensor& dout,
                        const Tensor& workspace, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  attention::backward_with(attention::default_provider(), stream, q, k, v, document_start, out, lse, dout, workspace,
                           dq, dk, dv);
}

}  // namespace mylos::kernels
