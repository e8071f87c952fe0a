// The backward pass on Hopper's warpgroups: what its three launches hand each other. bf16, heads of 128, no documents.
//
//   prepare   D = sum of dout · out over a head (Dao et al. 2022, eq. 4), with lse beside it, and zeros for the sums of dq
//   backward  a block has 128 keys of one head of k and v and goes through the queries that see them, of all heads that share it: dk and dv stay in
//             registers, what the keys add to dq is added up in memory, in any order
//   finish    dq from its sums
//
// Workspace: f32 sums [B, H, blocks of 64 queries, 64 · 128], in the order in which a product's sums lie in registers, and statistics
// [B, H, blocks of queries, 32 pairs of queries, 4]: lse · log2(e) of both, then D of both. Queries behind the sequence have lse infinite.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention/providers.hpp"
#include "tensor/bf16.hpp"

namespace mylos::kernels::attention::warpgroups {

inline constexpr int kHead = 128, kKeys = 128, kQueries = 64;
inline constexpr int kSumsOfBlock = kQueries * kHead, kStatisticsOfBlock = 2 * kQueries;

struct Problem {
  int batch, sequence, heads, kv_heads, key_blocks, query_blocks;
  float scale;  // of scores
  float *sums, *statistics;

  // Of queries [64 block, 64 block + 64) of a head.
  __host__ __device__ std::int64_t block_of(int b, int head, int block) const {
    return (std::int64_t(b) * heads + head) * query_blocks + block;
  }
};

// Grids of (query_blocks, heads, batch) blocks of kThreads.
inline constexpr int kThreads = 256;
void prepare(cudaStream_t stream, const Problem& p, const Arguments& a);
void finish(cudaStream_t stream, const Problem& p, const Arguments& a);

}  // namespace mylos::kernels::attention::warpgroups
#endif
