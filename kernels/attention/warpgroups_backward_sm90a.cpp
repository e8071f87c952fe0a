// Scores of a block are computed as Sᵀ [keys, queries], so that P and dS lie in registers as the left operands of dv and dk want them; only dq needs dS in
// shared memory. Of two warpgroups each has 64 keys, and half of the sums of dq; a third one's first thread brings Q, dout and statistics, two stages of a
// block of queries each. Products run one step ahead of what depends on them: while a warpgroup takes exponentials its dP is under way, while it makes dS its
// dv, while it adds to dq its dk and the next block's scores. Source of the order: Shah et al. 2024 (FlashAttention-3), section 3.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/attention/warpgroups_blocks.hpp"
#include "kernels/detail/pack.hpp"

namespace mylos::kernels::attention::warpgroups {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// ptxas holds the two halves of a conversion that it can look into in a register each; heads of 64 have none left for that.
template <int kHead>
__device__ std::uint32_t word_of(float a, float b) {
  if constexpr (kHead == 128) {
    return to_words<bf16>(Floats<2>{{a, b}}).v[0];
  } else {
    std::uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
    return word;
  }
}
__device__ inline void load_two(std::uint32_t from, float (&x)[2]) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(from) : "memory");
}
__device__ inline void add_to(float* sums, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(sums)),
               "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
__device__ inline void synchronize_consumers() { asm volatile("barrier.cta.sync 1, 256;" ::: "memory"); }

// Rows of 64 keys to their place in dk or dv, by way of boxes of shared memory that lie `apart` bytes apart.
template <int kSums>
__device__ void put_rows(const float (&d)[kSums], float scale, std::uint32_t boxes, int apart, const CUtensorMap* map,
                         int row, const Block& block, const Warpgroup& group) {
#pragma unroll
  for (int box = 0; box < kSums / 32; ++box)
#pragma unroll
    for (int g = 0; g < kBox / 16; ++g) {
      std::uint32_t words[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float* sum = d + 32 * box + 8 * g + 2 * n;
        words[n] = to_words<bf16>(Floats<2>{{scale * sum[0], scale * sum[1]}}).v[0];
      }
      store_matrices(row_of_matrix(boxes + box * apart, g), words);
    }
  fence_for_stores();
  group.synchronize();
  if (!group.leads()) return;
#pragma unroll
  for (int box = 0; box < kSums / 32; ++box)
    store_box(map, box * kBox, row, block.head, block.batch, boxes + box * apart);
  end_stores();
}

template <int kHead>
__device__ void compute(const Maps& maps, const Problem& p, Block block, const volatile int* taken,
                        std::uint32_t memory, std::uint32_t barriers) {
  using M = Memory<kHead>;
  constexpr int kScoresOf = kQueries<kHead> / 2;  // a thread's, of a key and queries
  const auto barrier = [&](int which) { return barriers + std::uint32_t(which) * 8; };
  const int half = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128 - 1, 0), thread = int(threadIdx.x) % 128,
            lane = thread % 32;
  const Warpgroup group(half);
  const std::uint32_t own = std::uint32_t(half) * 64 * 128;  // this warpgroup's rows of a box of keys
  // This warpgroup's half of dq: of the queries where they are two boxes of scores, else of the columns.
  const std::uint32_t queries_of_dq = M::kScoreBoxes == 2 ? half * M::kScoreBox : 0,
                      columns_of_dq = M::kScoreBoxes == 2 ? 0 : half * M::kKeyBox;
  // Descriptors of operands, by where they begin behind `memory`; along rows, or across them.
  const std::uint64_t along = descriptor<false>(memory), across = descriptor<true>(memory);
  const float scale2 = p.scale * std::numbers::log2e_v<float>;
  const int heads_together = p.heads / p.kv_heads;
  float s[kScoresOf], dp[kScoresOf], dq[32], dk[kHead / 2], dv[kHead / 2];
  std::uint32_t probabilities[kScoresOf / 2], ds[kScoresOf / 2];

  // [64 keys, a block of queries] of keys or values by a stage of queries; along the head.
  const auto multiply_scores = [&](float(&d)[kScoresOf], std::uint32_t left, std::uint32_t right) {
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k)
      multiply_add<false, false>(d, behind(along, left + k / 4 * M::kKeyBox + k % 4 * 32),
                                 behind(along, right + k / 4 * M::kQueryBox + k % 4 * 32), k);
  };
  // [64 keys, head] of P or dS by a stage of dout or q; along the queries.
  const auto multiply_queries = [&](float(&d)[kHead / 2], const std::uint32_t(&left)[kScoresOf / 2],
                                    std::uint32_t right, int add) {
#pragma unroll
    for (int k = 0; k < kQueries<kHead> / 16; ++k)
      multiply_add<true>(d, left + 4 * k, behind(across, right + k * 2048), add | k);
  };

  wait(barrier(kKeysThere), 0);
  wait(barrier(kQThere), 0);
  begin_products();
  multiply_scores(s, M::kK + own, M::kQ);
  end_products();
  if constexpr (!kBlocksLast<kHead>) wait(barrier(kValuesThere), 0);
  wait_for_products<0>();
  take_sums(s);

  [[maybe_unused]] const int blocks = p.batch * p.kv_heads * p.key_blocks;
  int count = 0;  // steps of all blocks so far
  for (int turn = 0;; ++turn) {
    const std::uint32_t keys = kBlocksLast<kHead> ? turn % 2 * M::kKeyBytes : 0;
    if constexpr (kBlocksLast<kHead>) wait(barrier(kValuesThere + turn % 2), turn / 2 % 2);
    int head = block.head * heads_together, at = block.first;
    [[maybe_unused]] int index = 0;  // of the next block of keys
    const int steps = heads_together * block.queries;
    for (int step = 0; step < steps; ++step, ++count) {
      const int stage = count % kStages, parity = count / kStages % 2, next = (count + 1) % kStages;
      wait(barrier(kDoutThere + stage), parity);
      begin_products();
      multiply_scores(dp, M::kV + keys + own, M::kDout + stage * M::kQueryBytes);
      end_products();
      const std::uint32_t statistics =
          memory + M::kStatistics + stage * M::kStatisticsBytes + std::uint32_t(lane % 4) * 16;
#pragma unroll
      for (int j = 0; j < kScoresOf / 4; ++j) {
        float lse[2];
        load_two(statistics + j * 64, lse);
#pragma unroll
        for (int i = 0; i < 4; ++i) s[4 * j + i] = s[4 * j + i] * scale2 - lse[i % 2];
      }
      if (at < block.first + kKeys / kQueries<kHead>) {  // on the diagonal: keys behind their query do not count
        const int key =
            block.keys * kKeys + half * 64 + thread / 32 * 16 + lane / 4 - at * kQueries<kHead> - lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < kScoresOf; ++i)
          if (key + i / 2 % 2 * 8 > i / 4 * 8 + i % 2) s[i] = -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kScoresOf; ++i) s[i] = power_of_2(s[i]);
#pragma unroll
      for (int i = 0; i < kScoresOf / 2; ++i) probabilities[i] = word_of<kHead>(s[2 * i], s[2 * i + 1]);
      if constexpr (kBlocksLast<kHead>)
        if (step == 0 && turn > 0 && group.leads()) {
          wait_for_stores<0>();  // of the results of the block before, from where its keys and values were
          arrive(barrier(kKeysFree + (turn + 1) % 2));
        }
      begin_products();
      multiply_queries(dv, probabilities, M::kDout + stage * M::kQueryBytes, step);
      end_products();
      wait_for_products<1>();
      take_sums(dp);
#pragma unroll
      for (int j = 0; j < kScoresOf / 4; ++j) {
        float d[2];
        load_two(statistics + j * 64 + 8, d);
#pragma unroll
        for (int i = 2 * j; i < 2 * j + 2; ++i) {
          const Floats<2> x = to_floats(Words<2, bf16>{{probabilities[i]}});
          ds[i] = word_of<kHead>(x.v[0] * (dp[2 * i] - d[0]), x.v[1] * (dp[2 * i + 1] - d[1]));
        }
      }
      const std::uint32_t own_scores = memory + M::kScores + stage * M::kScoreBytes + half * kBoxBytes;
#pragma unroll
      for (int box = 0; box < M::kScoreBoxes; ++box)
#pragma unroll
        for (int g = 0; g < kBox / 16; ++g) {
          const std::uint32_t* words = ds + 16 * box + 4 * g;
          store_matrices(row_of_matrix(own_scores + box * M::kScoreBox, g), {words[0], words[1], words[2], words[3]});
        }
      fence_for_stores();
      synchronize_consumers();
      bool more = step + 1 < steps;
      std::uint32_t next_keys = keys;
      if constexpr (kBlocksLast<kHead>)
        if (!more) {
          const int keys_stage = (turn + 1) % 2;
          wait(barrier(kKeysThere + keys_stage), (turn + 1) / 2 % 2);
          index = __shfl_sync(0xffffffffu, taken[keys_stage], 0);
          more = index < blocks;
          next_keys = keys_stage * M::kKeyBytes;
        }
      if (more) wait(barrier(kQThere + next), (count + 1) / kStages % 2);
      begin_products();
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k)
        multiply_add<true, true>(dq, behind(across, M::kScores + stage * M::kScoreBytes + queries_of_dq + k * 2048),
                                 behind(across, M::kK + keys + columns_of_dq + k * 2048), k);
      end_products();
      wait_for_products<1>();
      if (lane == 0) arrive(barrier(kDoutFree + stage));  // only products read dout, which are a warp's together
      begin_products();
      multiply_queries(dk, ds, M::kQ + stage * M::kQueryBytes, step);
      end_products();
      // Behind the very last step the scores of queries that are still there, for nothing: the products stay the same in every step.
      multiply_scores(s, M::kK + next_keys + own, M::kQ + (more ? next : stage) * M::kQueryBytes);
      end_products();
      wait_for_products<2>();
      take_sums(dq);
      float* const sums = p.sums + p.block_of(block.batch, head, at) * kSumsOfBlock + half * kSumsOfHalf + thread * 4;
#pragma unroll
      for (int j = 0; j < 8; ++j) add_to(sums + j * 512, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
      wait_for_products<0>();
      take_sums(s);
      arrive(barrier(kQFree + stage));  // every thread read statistics
      if (++at == p.query_blocks) {
        at = block.first;
        ++head;
      }
    }
    take_sums(dk);
    take_sums(dv);
    synchronize_consumers();  // nobody reads keys, values and scores any more
    const int row = block.keys * kKeys + half * 64;
    put_rows(dv, 1.0f, memory + M::kV + keys + own, M::kKeyBox, &maps.dv, row, block, group);
    put_rows(dk, p.scale, memory + (kBlocksLast<kHead> ? M::kK + keys + own : M::kScores + half * M::kScoreBytes),
             kBoxBytes, &maps.dk, row, block, group);
    if (!kBlocksLast<kHead> || index >= blocks) break;
    block = block_at<kHead>(p, index);
  }
  if (group.leads()) wait_for_stores<0>();  // shared memory goes away
}

#endif

template <int kHead>
__global__ void __launch_bounds__(kAllThreads, 1) backward_blocks([[maybe_unused]] const __grid_constant__ Maps maps,
                                                                  [[maybe_unused]] const __grid_constant__ Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  __shared__ std::uint64_t words[kBarriers];
  [[maybe_unused]] __shared__ int taken[2];
  const std::uint32_t memory = (shared_address(raw) + 1023) / 1024 * 1024, barriers = shared_address(words);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kBarriers; ++i) {
      const bool keys_free = i >= kKeysFree && i < kQThere, q_free = i >= kQFree && i < kDoutThere,
                 dout_free = i >= kDoutFree;
      // Warpgroups, threads, warps, or the one that brings.
      init_barrier(barriers + i * 8, keys_free ? 2 : q_free ? 256 : dout_free ? 8 : 1);
    }
    fence_barriers();
  }
  __syncthreads();
  const Block block = block_at<kHead>(p, int(blockIdx.x));
  constexpr int kFew = kBlocksLast<kHead> ? 40 : 24;
  if (threadIdx.x < 128) {
    take_few_registers<kFew>();
    if (threadIdx.x == 0) bring<kHead>(maps, p, block, taken, memory, barriers);
  } else {
    take_many_registers<(504 - kFew) / 2>();
    compute<kHead>(maps, p, block, taken, memory, barriers);
  }
#endif
}

int multiprocessors() {
  static const int count = [] {
    int device = 0, all = 0;
    check_launch(cudaGetDevice(&device), "device");
    check_launch(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
    return all;
  }();
  return count;
}

}  // namespace

template <int kHead>
void gradients(cudaStream_t stream, const Problem& p, const Maps& maps) {
  constexpr int kScratch = Memory<kHead>::kScratch;
  [[maybe_unused]] static const bool ready = [] {
    check_launch(cudaFuncSetAttribute(backward_blocks<kHead>, cudaFuncAttributeMaxDynamicSharedMemorySize, kScratch),
                 "shared memory");
    return true;
  }();
  const int blocks = p.batch * p.kv_heads * p.key_blocks;
  backward_blocks<kHead>
      <<<kBlocksLast<kHead> ? std::min(blocks, multiprocessors()) : blocks, kAllThreads, kScratch, stream>>>(maps, p);
  check_launch(cudaGetLastError(), "launch");
}

template void gradients<64>(cudaStream_t, const Problem&, const Maps&);
template void gradients<128>(cudaStream_t, const Problem&, const Maps&);

}  // namespace mylos::kernels::attention::warpgroups
