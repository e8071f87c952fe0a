// The blocks of the backward pass by warpgroups: which keys each has, where its shared memory has what, and the thread that brings it.
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include "kernels/attention/warpgroups.hpp"
#include "kernels/matmul/hopper_boxes.hpp"

namespace mylos::kernels::attention::warpgroups {

using namespace kernels::hopper;

inline constexpr int kAllThreads = 384, kStages = 2;
// Blocks of keys of so many heads of k and v are begun together, those with the most queries first: they read the same queries, and the last ones are short.
inline constexpr int kTogether = 8;

// Shared memory, in bytes from a multiple of 1024. A box of keys is 128 rows of 64 elements, one of queries as many as a block of them has; a box of scores
// is 128 keys by 64 queries.
template <int kHead>
struct Memory {
  static constexpr int kBoxes = kHead / kBox, kQueryBox = kQueries<kHead> * 128, kScoreBoxes = kQueries<kHead> / kBox;
  static constexpr int kKeyBox = kKeys * 128, kKeyBytes = kBoxes * kKeyBox, kQueryBytes = kBoxes * kQueryBox,
                       kScoreBox = kKeys * 128, kScoreBytes = kScoreBoxes * kScoreBox,
                       kStatisticsBytes = kStatisticsOfBlock<kHead> * 4;
  static constexpr int kKeyStages = kBlocksLast<kHead> ? 2 : 1;
  static constexpr int kK = 0, kV = kK + kKeyStages * kKeyBytes, kQ = kV + kKeyStages * kKeyBytes,
                       kDout = kQ + kStages * kQueryBytes, kScores = kDout + kStages * kQueryBytes,
                       kStatistics = kScores + 2 * kScoreBytes,
                       kScratch = kStatistics + kStages * kStatisticsBytes + 1024;
};
enum Barrier {
  kKeysThere,
  kValuesThere = kKeysThere + 2,
  kKeysFree = kValuesThere + 2,  // and values
  kQThere = kKeysFree + 2,
  kQFree = kQThere + kStages,
  kDoutThere = kQFree + kStages,
  kDoutFree = kDoutThere + kStages,
  kBarriers = kDoutFree + kStages
};

struct Maps {
  CUtensorMap q, k, v, dout, dk, dv;  // [B, S, N, h]
};

// Of keys [128 keys, 128 keys + 128) of a head of k and v; the first block of queries that sees them, and how many do.
struct Block {
  int batch, head, keys, first, queries;
};

template <int kHead>
void gradients(cudaStream_t stream, const Problem& p, const Maps& maps);

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int kHead>
__device__ Block block_at(const Problem& p, int index) {
  const int all = p.batch * p.kv_heads, section = index / (kTogether * p.key_blocks),
            within = index % (kTogether * p.key_blocks), members = min(kTogether, all - section * kTogether),
            member = section * kTogether + within % members, keys = within / members,
            first = keys * (kKeys / kQueries<kHead>);
  return {member / p.kv_heads, member % p.kv_heads, keys, first, p.query_blocks - first};
}

// Where blocks last, `taken` says by stages of keys which block they are of, as soon as they are there.
template <int kHead>
__device__ void bring(const Maps& maps, const Problem& p, Block block, volatile int* taken, std::uint32_t memory,
                      std::uint32_t barriers) {
  using M = Memory<kHead>;
  const auto barrier = [&](int which) { return barriers + std::uint32_t(which) * 8; };
  const int group = p.heads / p.kv_heads;
  [[maybe_unused]] const int blocks = p.batch * p.kv_heads * p.key_blocks;
  int stage = 0, parity = 1, later = 0;
  for (int turn = 0;; ++turn) {
    const int keys_stage = kBlocksLast<kHead> ? turn % 2 : 0;
    const auto bring_keys = [&](int to, const CUtensorMap* map, int which) {
      arrive_and_expect(barrier(which), M::kKeyBytes);
      for (int box = 0; box < M::kBoxes; ++box)
        fetch_box(memory + to + box * M::kKeyBox, map, box * kBox, block.keys * kKeys, block.head, block.batch,
                  barrier(which));
    };
    bring_keys(M::kK + keys_stage * M::kKeyBytes, &maps.k, kKeysThere + keys_stage);
    for (int member = 0; member < group; ++member)
      for (int n = 0; n < block.queries; ++n) {
        const int head = block.head * group + member, at = block.first + n;
        const auto bring_queries = [&](int to, const CUtensorMap* map, int there) {
          for (int box = 0; box < M::kBoxes; ++box)
            fetch_box(memory + to + stage * M::kQueryBytes + box * M::kQueryBox, map, box * kBox, at * kQueries<kHead>,
                      head, block.batch, barrier(there + stage));
        };
        wait(barrier(kQFree + stage), parity);
        arrive_and_expect(barrier(kQThere + stage), M::kQueryBytes + M::kStatisticsBytes);
        bring_queries(M::kQ, &maps.q, kQThere);
        fetch_bytes(memory + M::kStatistics + stage * M::kStatisticsBytes,
                    p.statistics + p.block_of(block.batch, head, at) * kStatisticsOfBlock<kHead>, M::kStatisticsBytes,
                    barrier(kQThere + stage));
        if (member == 0 && n == 0) {
          bring_keys(M::kV + keys_stage * M::kKeyBytes, &maps.v, kValuesThere + keys_stage);
          if constexpr (kBlocksLast<kHead>) later = atomicAdd(p.taken, 1);  // comes while this block's operands do
        }
        wait(barrier(kDoutFree + stage), parity);
        arrive_and_expect(barrier(kDoutThere + stage), M::kQueryBytes);
        bring_queries(M::kDout, &maps.dout, kDoutThere);
        if (++stage == kStages) {
          stage = 0;
          parity ^= 1;
        }
      }
    if constexpr (!kBlocksLast<kHead>) return;
    const int index = int(gridDim.x) + later, next_stage = (turn + 1) % 2;
    wait(barrier(kKeysFree + next_stage), (turn + 1) / 2 % 2 ^ 1);
    taken[next_stage] = index;
    if (index >= blocks) return arrive(barrier(kKeysThere + next_stage));
    block = block_at<kHead>(p, index);
  }
}

#endif

}  // namespace mylos::kernels::attention::warpgroups
#endif
