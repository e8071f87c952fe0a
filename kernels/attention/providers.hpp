// What stands behind the attention op: providers that take plain addresses and strides, checked before by
// attention.cpp.
//
// portable: Kokkos teams, the GPU's fallback and the reference for vendor kernels; it runs on the CPU too (tests do).
// cpu: vector code on packed fp32 tiles, one task a thread; the fast path of CPU builds. Both are deterministic;
// neither allocates. Forward reads q, k, v and writes out, lse; backward reads out, lse, dout too.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"
#include "tensor/runtime.hpp"

namespace mylos::kernels::attention {

// A [B, S, N, h] window: element strides of batch, token and head; the last dimension is dense.
struct Window {
  void* data = nullptr;
  std::int64_t batch = 0, token = 0, head = 0;
};

struct Arguments {
  AttentionShape shape{};
  DType dtype = DType::f32;
  AttentionOptions options;
  Window q, k, v, out, dout, dq, dk, dv;
  const std::int32_t* document_start = nullptr;  // [B, S] or none
  AttentionBucket bucket;                        // with tables, or none
  void* tables = nullptr;
  float* lse = nullptr;  // [B, H, S]
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
};

void expect_room(const Arguments& a, std::int64_t bytes);  // of its workspace

namespace portable {
std::int64_t workspace_bytes(const AttentionShape& shape, bool backward);
void forward(const Stream& stream, const Arguments& a);
void backward(const Stream& stream, const Arguments& a);
}  // namespace portable

namespace cpu {
std::int64_t workspace_bytes(const AttentionShape& shape, bool backward, int threads);
void forward(const Stream& stream, const Arguments& a);
void backward(const Stream& stream, const Arguments& a);
}  // namespace cpu

// cudnn.cpp, with MYLOS_CUDNN: bf16, head sizes up to 128, documents with tables or none; what the H200 trains with. With
// documents lse is [T, H].
namespace cudnn {
bool supports(const AttentionShape& shape, DType dtype);
std::int64_t workspace_bytes(const AttentionShape& shape, bool backward, const AttentionOptions& options);
void forward(const Stream& stream, const Arguments& a);
void backward(const Stream& stream, const Arguments& a);
}  // namespace cudnn

// tiles_*_kokkos.cpp: tensor cores, bf16, heads of 64 and 128, operands aligned to 16 bytes, documents from document_start
// alone, deterministic, workspace as for portable. On a CPU the instructions are spelled out, for tests.
namespace tiles {
// Tokens of the longest document up to which this is preferred to cuDNN's ragged calls. What a ragged call costs does not shrink
// with the documents (28 us forward and 31 backward on an H200 for 32 of 64 tokens, 12 heads of 64), but it does more of the
// card's work a microsecond: 16,384 tokens of 32/8 heads of 128 in documents of 512 take 1.1 ms there and 2.8 here.
constexpr std::int64_t faster_up_to(std::int64_t head_size) { return head_size <= 64 ? 512 : 64; }
bool supports(const AttentionShape& shape, DType dtype);
void forward(const Stream& stream, const Arguments& a);
void backward(const Stream& stream, const Arguments& a);
}  // namespace tiles

// warpgroups*_sm90a.cpp, with MYLOS_WARPGROUPS: the backward pass alone, of what cuDNN's forward pass left; bf16, heads of 64 and 128, aligned operands,
// no documents. dq is added up in any order, dk and dv in one.
namespace warpgroups {
// Tokens of a sequence from which on this is preferred to cuDNN's pass (bench_kernels_attention_backward): heads of 128 at every length, of 64 where it was
// held against cuDNN's.
constexpr std::int64_t faster_from(std::int64_t head_size) { return head_size <= 64 ? 512 : 1; }
bool supports(const AttentionShape& shape, DType dtype);
std::int64_t workspace_bytes(const AttentionShape& shape);
void backward(const Stream& stream, const Arguments& a);
}  // namespace warpgroups

// The op as the public header states it, by a named provider instead of the default one.
enum class Provider { portable, cpu, cudnn, tiles, warpgroups };
bool has_provider(Provider provider, const AttentionShape& shape, DType dtype);
Provider default_provider(const AttentionShape& shape, DType dtype, const AttentionDocuments& documents);
// Of the backward pass, which takes what the default one's forward pass left.
Provider backward_provider(const AttentionShape& shape, DType dtype, const AttentionDocuments& documents,
                           const AttentionOptions& options);
std::int64_t workspace_of(Provider provider, const AttentionShape& shape, bool backward,
                          const AttentionOptions& options = {});
void forward_with(Provider provider, const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                  const AttentionDocuments& documents, const Tensor& workspace, const Tensor& out, const Tensor& lse);
void backward_with(Provider provider, const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionDocuments& documents, const Tensor& out, const Tensor& lse, const Tensor& dout,
                   const Tensor& workspace, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                   const AttentionOptions& options = {});

}  // namespace mylos::kernels::attention
