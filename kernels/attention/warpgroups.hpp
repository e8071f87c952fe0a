// The backward pass on Hopper's warpgroups: what its three launches hand each other. bf16, heads of 64 and 128, no documents.
//
//   prepare   D = sum of dout · out over a head (Dao et al. 2022, eq. 4), with lse beside it, and zeros for the sums of dq
//   gradients a block has 128 keys of one head of k and v and goes through the queries that see them, of all heads that share it: dk and dv stay in
//             registers, what the keys add to dq is added up in memory, in any order
//   finish    dq from its sums
//
// Workspace: f32 sums [B, H, blocks of queries, 2, 64 · 64], in the order in which a product's sums lie in registers, and statistics
// [B, H, blocks of queries, pairs of queries, 4]: lse · log2(e) of both, then D of both. Queries behind the sequence have lse infinite.
// Behind them a counter.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention/providers.hpp"
#include "tensor/bf16.hpp"

namespace mylos::kernels::attention::warpgroups {

// A block of queries is two times 64 x 64 sums of dq, a half for each warpgroup that multiplies: the columns of 64 queries, or with heads of 64 twice the
// queries, so that products stay as wide and as much goes to memory for each product.
inline constexpr int kKeys = 128, kSumsOfHalf = 64 * 64, kSumsOfBlock = 2 * kSumsOfHalf;
template <int kHead>
inline constexpr int kQueries = kSumsOfBlock / kHead;
template <int kHead>
inline constexpr int kStatisticsOfBlock = 2 * kQueries<kHead>;

// Blocks take one block of keys after another, so that the next one's operands come while the last one's results go: heads of 64 have too little work in one
// for less. Those of 128 have neither registers nor shared memory left for it.
template <int kHead>
inline constexpr bool kBlocksLast = kHead == 64;

struct Problem {
  int batch, sequence, heads, kv_heads, key_blocks, query_blocks;
  float scale;  // of scores
  float *sums, *statistics;
  int* taken;  // blocks of keys that were taken beside each block's first, where blocks last; prepare() sets it to 0

  // Of the block of queries of a head.
  __host__ __device__ std::int64_t block_of(int b, int head, int block) const {
    return (std::int64_t(b) * heads + head) * query_blocks + block;
  }
};

// Grids of (query_blocks, heads, batch) blocks of kThreads.
inline constexpr int kThreads = 256;
template <int kHead>
void prepare(cudaStream_t stream, const Problem& p, const Arguments& a);
template <int kHead>
void finish(cudaStream_t stream, const Problem& p, const Arguments& a);

}  // namespace mylos::kernels::attention::warpgroups
#endif
