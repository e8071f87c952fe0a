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

// Shared memory, in bytes from a multiple of 1024. A box of keys is 128 rows of 64 elements, one of queries 64.
inline constexpr int kKeyBox = kKeys * 128, kKeyBytes = 2 * kKeyBox, kQueryBytes = 2 * kBoxBytes,
                     kScoreBytes = kKeys * 128;
inline constexpr int kK = 0, kV = kK + kKeyBytes, kQ = kV + kKeyBytes, kDout = kQ + kStages * kQueryBytes,
                     kScores = kDout + kStages * kQueryBytes, kStatistics = kScores + 2 * kScoreBytes,
                     kScratch = kStatistics + kStages * kStatisticsOfBlock * 4 + 1024;
enum Barrier {
  kKeysThere,
  kValuesThere,
  kQThere,
  kQFree = kQThere + kStages,
  kDoutThere = kQFree + kStages,
  kDoutFree = kDoutThere + kStages,
  kBarriers = kDoutFree + kStages
};

struct Maps {
  CUtensorMap q, k, v, dout, dk, dv;  // [B, S, N, 128]
};

// Of keys [128 keys, 128 keys + 128) of a head of k and v; the first block of queries that sees them, and how many do.
struct Block {
  int batch, head, keys, first, queries;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline Block block_at(const Problem& p, int index) {
  const int all = p.batch * p.kv_heads, section = index / (kTogether * p.key_blocks),
            within = index % (kTogether * p.key_blocks), members = min(kTogether, all - section * kTogether),
            member = section * kTogether + within % members, keys = within / members, first = keys * (kKeys / kQueries);
  return {member / p.kv_heads, member % p.kv_heads, keys, first, p.query_blocks - first};
}

__device__ inline void bring(const Maps& maps, const Problem& p, const Block& block, std::uint32_t memory,
                             std::uint32_t barriers) {
  const auto barrier = [&](int which) { return barriers + std::uint32_t(which) * 8; };
  const auto bring_keys = [&](int to, const CUtensorMap* map, int which) {
    arrive_and_expect(barrier(which), kKeyBytes);
    for (int box = 0; box < 2; ++box)
      fetch_box(memory + to + box * kKeyBox, map, box * kBox, block.keys * kKeys, block.head, block.batch,
                barrier(which));
  };
  bring_keys(kK, &maps.k, kKeysThere);
  const int group = p.heads / p.kv_heads;
  int stage = 0, parity = 1;
  for (int member = 0; member < group; ++member)
    for (int n = 0; n < block.queries; ++n) {
      const int head = block.head * group + member, at = block.first + n;
      const auto bring_queries = [&](int to, const CUtensorMap* map, int there) {
        for (int box = 0; box < 2; ++box)
          fetch_box(memory + to + stage * kQueryBytes + box * kBoxBytes, map, box * kBox, at * kQueries, head,
                    block.batch, barrier(there + stage));
      };
      wait(barrier(kQFree + stage), parity);
      arrive_and_expect(barrier(kQThere + stage), kQueryBytes + kStatisticsOfBlock * 4);
      bring_queries(kQ, &maps.q, kQThere);
      fetch_bytes(memory + kStatistics + stage * kStatisticsOfBlock * 4,
                  p.statistics + p.block_of(block.batch, head, at) * kStatisticsOfBlock, kStatisticsOfBlock * 4,
                  barrier(kQThere + stage));
      if (member == 0 && n == 0) bring_keys(kV, &maps.v, kValuesThere);
      wait(barrier(kDoutFree + stage), parity);
      arrive_and_expect(barrier(kDoutThere + stage), kQueryBytes);
      bring_queries(kDout, &maps.dout, kDoutThere);
      if (++stage == kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
}

#endif

}  // namespace mylos::kernels::attention::warpgroups
#endif
