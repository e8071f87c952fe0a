// Causal attention with grouped-query heads and document boundaries, tiled with an online softmax (Dao et al. 2022,
// 2023): S x S memory is never used, the backward pass recomputes the scores from lse.
//
//   q [B, S, H, h], k and v [B, S, K, h]: H a multiple of K; strided windows of a fused projection are welcome, the
//   last dimension dense. out [B, S, H, h]; lse [B, H, S] f32: log of the softmax denominator, scores scaled by
//   1/sqrt(h); how it lies in its memory is the provider's own, so forward and backward pass take the same documents.
//   documents (documents.hpp), or none: query i of a sequence sees keys start[i] <= j <= i. bf16 or f32; scores,
//   softmax and sums in fp32.
//   FLOPs (causal): forward 2 B H S S h, backward 2.5 times that.
// Results are the same bits in every run, unless the options give that up. Once a shape has run, calls with it neither
// allocate device memory nor wait for the device, so that CUDA may capture them into a graph.
#pragma once

#include <cstdint>

#include "kernels/attention/documents.hpp"
#include "tensor/runtime.hpp"

namespace mylos::kernels {

inline constexpr std::int64_t kMaxHeadSize = 256;

struct AttentionShape {
  std::int64_t batch, sequence, heads, kv_heads, head_size;
};
struct AttentionOptions {
  // false lets the backward pass add up dq in any order: without documents heads of 128, and of 64 from 512 tokens on, then take our own kernel on Hopper,
  // the rest cuDNN's. On an H200, S 4096, 32/8 heads of 128, 15 % of the pass and 2 GiB of workspace. The forward pass, and other providers, are deterministic
  // either way.
  bool deterministic = true;
  // Of the workspace: false, when no batch has documents.
  bool documents = true;
};
// Bytes (u8) of workspace for the forward and the backward pass; the options are those of the call that uses it.
std::int64_t attention_workspace(const AttentionShape& shape, DType dtype, bool backward,
                                 const AttentionOptions& options = {});

void attention_forward(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionDocuments& documents, const Tensor& workspace, const Tensor& out,
                       const Tensor& lse);

// dq, dk, dv like q, k, v (overwritten).
void attention_backward(const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionDocuments& documents, const Tensor& out, const Tensor& lse, const Tensor& dout,
                        const Tensor& workspace, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                        const AttentionOptions& options = {});

}  // namespace mylos::kernels
