// Runs attention by a named provider on device memory as the model lays it out, and compares what comes back.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "attention_reference.hpp"
#include "kernels/attention/document_tables.hpp"
#include "kernels/attention/providers.hpp"
#include "support/host_tensor.hpp"

namespace mylos::test {

using kernels::attention::Provider;

inline HostTensor join_heads(const std::vector<const HostTensor*>& parts) {
  const std::int64_t tokens = parts[0]->shape[0] * parts[0]->shape[1], h = parts[0]->shape[3];
  std::int64_t heads = 0;
  for (const HostTensor* p : parts) heads += p->shape[2];
  HostTensor joined = zeros({parts[0]->shape[0], parts[0]->shape[1], heads, h});
  std::int64_t at = 0;
  for (const HostTensor* p : parts) {
    const std::int64_t width = p->shape[2] * h;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t d = 0; d < width; ++d) joined[t * heads * h + at + d] = (*p)[t * width + d];
    at += width;
  }
  return joined;
}

inline HostTensor heads_of(const HostTensor& joined, std::int64_t first, std::int64_t count) {
  const std::int64_t tokens = joined.shape[0] * joined.shape[1], heads = joined.shape[2], h = joined.shape[3];
  HostTensor part = zeros({joined.shape[0], joined.shape[1], count, h});
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t d = 0; d < count * h; ++d) part[t * count * h + d] = joined[(t * heads + first) * h + d];
  return part;
}

// A workspace of exactly the size asked for, with bytes behind it that must survive.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(std::int64_t bytes) : bytes_(bytes), all_(empty_device({bytes + kGuard}, DType::u8)) {}
  Tensor tensor() const { return all_.tensor.slice(0, 0, bytes_); }
  void expect_untouched(const Stream& stream) const {
    const std::vector<std::uint8_t> raw = raw_bytes(stream, all_.tensor);
    EXPECT_TRUE(std::all_of(raw.begin() + bytes_, raw.end(), [](std::uint8_t x) { return x == 0xFF; }))
        << "written behind the workspace";
  }

 private:
  static constexpr std::int64_t kGuard = 4096;
  std::int64_t bytes_;
  DeviceTensor all_;
};

inline kernels::AttentionLengths lengths_of(const AttentionShape& s, const std::vector<std::int32_t>& documents) {
  kernels::AttentionLengths lengths;
  std::int64_t n = 0;
  for (std::int64_t t = s.batch * s.sequence - 1; t >= 0; --t) {
    ++n;
    if (documents[std::size_t(t)] == t % s.sequence) lengths.add(std::exchange(n, 0));
  }
  return lengths;
}

// Documents on the device, with tables if they are wanted; empty: one document a row.
struct PlacedDocuments {
  PlacedDocuments(const Stream& stream, const AttentionShape& s, const std::vector<std::int32_t>& documents,
                  bool with_tables, bool deterministic = true) {
    if (documents.empty()) return;
    start = to_device(stream, documents, {s.batch, s.sequence});
    view = start.tensor;
    if (!with_tables) return;
    view.bucket = kernels::attention::bucket_of(s, lengths_of(s, documents), deterministic);
    tables = empty_device({kernels::attention::tables_of(s, view.bucket).bytes}, DType::u8);
    view.tables = tables.tensor;
    kernels::attention_prepare_documents(stream, s, view);
  }

  DeviceTensor start, tables;
  kernels::AttentionDocuments view;
};

// [B, H, S] from lse as cuDNN keeps it with documents, [B, S, H].
inline HostTensor heads_first(const AttentionShape& s, const HostTensor& lse) {
  HostTensor r = zeros({s.batch, s.heads, s.sequence});
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.sequence; ++i)
        r[(b * s.heads + h) * s.sequence + i] = lse[(b * s.sequence + i) * s.heads + h];
  return r;
}

enum class Memory { fused, dense };  // q|k|v as windows of one buffer [B, S, H + 2K, h], or a buffer each

inline Results run(Provider provider, const AttentionShape& s, const Values& x,
                   const std::vector<std::int32_t>& documents, DType dtype, Memory memory,
                   kernels::AttentionOptions options = {}) {
  using namespace kernels::attention;
  Stream stream;
  const std::vector<std::int64_t> q_shape = x.q.shape, k_shape = x.k.shape,
                                  all_shape = {s.batch, s.sequence, s.heads + 2 * s.kv_heads, s.head_size};
  DeviceTensor all, q, k, v, dall, dq, dk, dv;
  const auto split = [&](const Tensor& t, DeviceTensor& first, DeviceTensor& second, DeviceTensor& third) {
    first.tensor = t.slice(2, 0, s.heads);
    second.tensor = t.slice(2, s.heads, s.heads + s.kv_heads);
    third.tensor = t.slice(2, s.heads + s.kv_heads, s.heads + 2 * s.kv_heads);
  };
  if (memory == Memory::fused) {
    all = to_device(stream, join_heads({&x.q, &x.k, &x.v}), dtype);
    split(all.tensor, q, k, v);
    dall = empty_device(all_shape, dtype);
    split(dall.tensor, dq, dk, dv);
  } else {
    q = to_device(stream, x.q, dtype), k = to_device(stream, x.k, dtype), v = to_device(stream, x.v, dtype);
    dq = empty_device(q_shape, dtype), dk = empty_device(k_shape, dtype), dv = empty_device(k_shape, dtype);
  }
  const DeviceTensor dout = to_device(stream, x.dout, dtype), out = empty_device(q_shape, dtype);
  const DeviceTensor lse = empty_device({s.batch, s.heads, s.sequence}, DType::f32);
  const PlacedDocuments placed(stream, s, documents, provider == Provider::cudnn, options.deterministic);
  options.documents = bool(placed.view);
  const GuardedWorkspace forward_space(workspace_of(provider, s, false, options)),
      backward_space(workspace_of(provider, s, true, options));

  forward_with(provider, stream, q.tensor, k.tensor, v.tensor, placed.view, forward_space.tensor(), out.tensor,
               lse.tensor);
  backward_with(provider, stream, q.tensor, k.tensor, v.tensor, placed.view, out.tensor, lse.tensor, dout.tensor,
                backward_space.tensor(), dq.tensor, dk.tensor, dv.tensor, options);
  stream.fence();
  forward_space.expect_untouched(stream);
  backward_space.expect_untouched(stream);
  Results r;
  r.out = to_host(stream, out.tensor);
  r.lse = to_host(stream, lse.tensor);
  if (provider == Provider::cudnn && placed.view) r.lse = heads_first(s, r.lse);
  if (memory == Memory::fused) {
    const HostTensor d = to_host(stream, dall.tensor);
    r.dq = heads_of(d, 0, s.heads), r.dk = heads_of(d, s.heads, s.kv_heads),
    r.dv = heads_of(d, s.heads + s.kv_heads, s.kv_heads);
  } else {
    r.dq = to_host(stream, dq.tensor), r.dk = to_host(stream, dk.tensor), r.dv = to_host(stream, dv.tensor);
  }
  return r;
}

// A gradient by scores is a difference of two sums of h products; where all of it is zero (one visible key), what
// remains is their rounding, which has no relative size.
inline ::testing::AssertionResult gradient_close(const HostTensor& got, const HostTensor& want, DType dtype) {
  const auto is_zero = [](double x) { return x == 0.0; };
  // Products of the size of one, of which little may remain in a short sequence.
  constexpr double kScale = 0.1;
  if (!std::all_of(want.v.begin(), want.v.end(), is_zero)) return close(got, want, tolerance_of(dtype), kScale);
  for (const double x : got.v)
    if (!(std::abs(x) < 10 * tolerance_of(dtype)))
      return ::testing::AssertionFailure() << x << " where the gradient is zero";
  return ::testing::AssertionSuccess();
}

inline void expect_close(const Results& got, const Results& want, DType dtype) {
  EXPECT_TRUE(close(got.out, want.out, tolerance_of(dtype))) << "out";
  EXPECT_TRUE(close(got.lse, want.lse, tolerance_of(DType::f32))) << "lse";
  EXPECT_TRUE(gradient_close(got.dq, want.dq, dtype)) << "dq";
  EXPECT_TRUE(gradient_close(got.dk, want.dk, dtype)) << "dk";
  EXPECT_TRUE(close(got.dv, want.dv, tolerance_of(dtype))) << "dv";
}

inline void expect_same_bits(const Results& a, const Results& b) {
  EXPECT_EQ(a.out.v, b.out.v);
  EXPECT_EQ(a.lse.v, b.lse.v);
  EXPECT_EQ(a.dq.v, b.dq.v);
  EXPECT_EQ(a.dk.v, b.dk.v);
  EXPECT_EQ(a.dv.v, b.dv.v);
}

}  // namespace mylos::test
