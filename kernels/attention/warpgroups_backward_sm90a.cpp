// Scores of a block are computed as Sᵀ [keys, queries], so that P and dS lie in registers as the left operands of dv and dk want them; only dq needs dS in
// shared memory. Of two warpgroups each has 64 keys, and half of the columns of dq; a third one's first thread brings Q, dout and statistics, two stages of
// 64 queries each. Products run one step ahead of what depends on them: while a warpgroup takes exponentials its dP is under way, while it makes dS its dv,
// while it adds to dq its dk and the next block's scores. Source of the order: Shah et al. 2024 (FlashAttention-3), section 3.
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
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
__device__ inline void load_two(std::uint32_t from, float (&x)[2]) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(from) : "memory");
}
__device__ inline void add_to(float* sums, float a, float b, float c, float d) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(sums)),
               "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
__device__ inline void synchronize_consumers() { asm volatile("barrier.cta.sync 1, 256;" ::: "memory"); }

// Rows of 64 keys to their place in dk or dv, by way of two boxes of shared memory.
__device__ void put_rows(const float (&d)[64], float scale, std::uint32_t box0, std::uint32_t box1,
                         const CUtensorMap* map, int row, const Block& block, const Warpgroup& group) {
#pragma unroll
  for (int box = 0; box < 2; ++box)
#pragma unroll
    for (int g = 0; g < kBox / 16; ++g) {
      std::uint32_t words[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float* sum = d + 32 * box + 8 * g + 2 * n;
        words[n] = to_words<bf16>(Floats<2>{{scale * sum[0], scale * sum[1]}}).v[0];
      }
      store_matrices(row_of_matrix(box == 0 ? box0 : box1, g), words);
    }
  fence_for_stores();
  group.synchronize();
  if (!group.leads()) return;
  store_box(map, 0, row, block.head, block.batch, box0);
  store_box(map, kBox, row, block.head, block.batch, box1);
  end_stores();
}

__device__ void compute(const Maps& maps, const Problem& p, const Block& block, std::uint32_t memory,
                        std::uint32_t barriers) {
  const auto barrier = [&](int which) { return barriers + std::uint32_t(which) * 8; };
  const int half = __shfl_sync(0xffffffffu, int(threadIdx.x) / 128 - 1, 0), thread = int(threadIdx.x) % 128,
            lane = thread % 32;
  const Warpgroup group(half);
  const std::uint32_t own = std::uint32_t(half) * 64 * 128;  // this warpgroup's rows of a box of keys
  // Descriptors of operands, by where they begin behind `memory`; along rows, or across them.
  const std::uint64_t along = descriptor<false>(memory), across = descriptor<true>(memory);
  const float scale2 = p.scale * std::numbers::log2e_v<float>;
  const int heads_together = p.heads / p.kv_heads, steps = heads_together * block.queries;
  float s[32], dp[32], dq[32], dk[64], dv[64];
  std::uint32_t probabilities[16], ds[16];

  // [64 keys, 64 queries] of keys or values by a stage of queries; along the head.
  const auto multiply_scores = [&](float(&d)[32], std::uint32_t left, std::uint32_t right) {
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k)
      multiply_add<false, false>(d, behind(along, left + k / 4 * kKeyBox + k % 4 * 32),
                                 behind(along, right + k / 4 * kBoxBytes + k % 4 * 32), k);
  };
  // [64 keys, 128] of P or dS by a stage of dout or q; along the queries.
  const auto multiply_queries = [&](float(&d)[64], const std::uint32_t(&left)[16], std::uint32_t right, int add) {
#pragma unroll
    for (int k = 0; k < kQueries / 16; ++k)
      multiply_add<true>(d, left + 4 * k, behind(across, right + k * 2048), add | k);
  };

  wait(barrier(kKeysThere), 0);
  wait(barrier(kQThere), 0);
  begin_products();
  multiply_scores(s, kK + own, kQ);
  end_products();
  wait(barrier(kValuesThere), 0);
  wait_for_products<0>();
  take_sums(s);

  int head = block.head * heads_together, at = block.first;
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages, parity = step / kStages % 2, next = (step + 1) % kStages;
    const bool more = step + 1 < steps;
    wait(barrier(kDoutThere + stage), parity);
    begin_products();
    multiply_scores(dp, kV + own, kDout + stage * kQueryBytes);
    end_products();
    const std::uint32_t statistics =
        memory + kStatistics + stage * kStatisticsOfBlock * 4 + std::uint32_t(lane % 4) * 16;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float lse[2];
      load_two(statistics + j * 64, lse);
#pragma unroll
      for (int i = 0; i < 4; ++i) s[4 * j + i] = s[4 * j + i] * scale2 - lse[i % 2];
    }
    if (at < block.first + kKeys / kQueries) {  // on the diagonal: keys behind their query do not count
      const int key = block.keys * kKeys + half * 64 + thread / 32 * 16 + lane / 4 - at * kQueries - lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (key + i / 2 * 8 > 8 * j + i % 2) s[4 * j + i] = -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) s[i] = power_of_2(s[i]);
#pragma unroll
    for (int i = 0; i < 16; ++i) probabilities[i] = to_words<bf16>(Floats<2>{{s[2 * i], s[2 * i + 1]}}).v[0];
    begin_products();
    multiply_queries(dv, probabilities, kDout + stage * kQueryBytes, step);
    end_products();
    wait_for_products<1>();
    take_sums(dp);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float d[2];
      load_two(statistics + j * 64 + 8, d);
#pragma unroll
      for (int i = 2 * j; i < 2 * j + 2; ++i) {
        const Floats<2> x = to_floats(Words<2, bf16>{{probabilities[i]}});
        ds[i] = to_words<bf16>(Floats<2>{{x.v[0] * (dp[2 * i] - d[0]), x.v[1] * (dp[2 * i + 1] - d[1])}}).v[0];
      }
    }
    const std::uint32_t own_scores = memory + kScores + stage * kScoreBytes + half * kBoxBytes;
#pragma unroll
    for (int g = 0; g < kBox / 16; ++g)
      store_matrices(row_of_matrix(own_scores, g), {ds[4 * g], ds[4 * g + 1], ds[4 * g + 2], ds[4 * g + 3]});
    fence_for_stores();
    synchronize_consumers();
    if (more) wait(barrier(kQThere + next), (step + 1) / kStages % 2);
    begin_products();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      multiply_add<true, true>(dq, behind(across, kScores + stage * kScoreBytes + k * 2048),
                               behind(across, kK + half * kKeyBox + k * 2048), k);
    end_products();
    wait_for_products<1>();
    if (lane == 0) arrive(barrier(kDoutFree + stage));  // only products read dout, which are a warp's together
    begin_products();
    multiply_queries(dk, ds, kQ + stage * kQueryBytes, step);
    end_products();
    // Behind the last step the scores of queries that are still there, for nothing: the products stay the same in every step.
    multiply_scores(s, kK + own, kQ + (more ? next : stage) * kQueryBytes);
    end_products();
    wait_for_products<2>();
    take_sums(dq);
    float* const sums =
        p.sums + p.block_of(block.batch, head, at) * kSumsOfBlock + half * (kSumsOfBlock / 2) + thread * 4;
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
  synchronize_consumers();  // nobody reads values and scores any more
  const int row = block.keys * kKeys + half * 64;
  put_rows(dv, 1.0f, memory + kV + own, memory + kV + kKeyBox + own, &maps.dv, row, block, group);
  const std::uint32_t boxes = memory + kScores + half * kScoreBytes;
  put_rows(dk, p.scale, boxes, boxes + kBoxBytes, &maps.dk, row, block, group);
  if (group.leads()) wait_for_stores<0>();  // shared memory goes away
}

#endif

__global__ void __launch_bounds__(kAllThreads, 1) backward_blocks([[maybe_unused]] const __grid_constant__ Maps maps,
                                                                  [[maybe_unused]] const __grid_constant__ Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  __shared__ std::uint64_t words[kBarriers];
  const std::uint32_t memory = (shared_address(raw) + 1023) / 1024 * 1024, barriers = shared_address(words);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kBarriers; ++i) {
      const bool q_free = i >= kQFree && i < kDoutThere, dout_free = i >= kDoutFree;
      init_barrier(barriers + i * 8, q_free ? 256 : dout_free ? 8 : 1);  // threads, warps, or the one that brings
    }
    fence_barriers();
  }
  __syncthreads();
  const Block block = block_at(p, int(blockIdx.x));
  if (threadIdx.x < 128) {
    take_few_registers();
    if (threadIdx.x == 0) bring(maps, p, block, memory, barriers);
  } else {
    take_many_registers();
    compute(maps, p, block, memory, barriers);
  }
#endif
}

int blocks_of(std::int64_t n, int size) { return int((n + size - 1) / size); }

Problem problem_of(const Arguments& a) {
  const AttentionShape& s = a.shape;
  Problem p{.batch = int(s.batch),
            .sequence = int(s.sequence),
            .heads = int(s.heads),
            .kv_heads = int(s.kv_heads),
            .key_blocks = blocks_of(s.sequence, kKeys),
            .query_blocks = blocks_of(s.sequence, kQueries),
            .scale = 1.0f / std::sqrt(float(s.head_size)),
            .sums = static_cast<float*>(a.workspace),
            .statistics = nullptr};
  p.statistics = p.sums + p.block_of(p.batch, 0, 0) * kSumsOfBlock;
  return p;
}

CUtensorMap map_of(const AttentionShape& s, const Window& w, std::int64_t heads, int rows) {
  return hopper::map_of(w.data, std::array{std::int64_t(kHead), s.sequence, heads, s.batch},
                        std::array{w.token, w.head, w.batch}, std::array{kBox, rows});
}

}  // namespace

bool supports(const AttentionShape& s, DType dtype) {
  constexpr std::int64_t kMost = std::int64_t(1) << 30;  // blocks are counted in 32 bits
  return is_hopper() && dtype == DType::bf16 && s.head_size == kHead && s.heads <= 65535 && s.batch <= 65535 &&
         s.batch * s.kv_heads * blocks_of(s.sequence, kKeys) < kMost;
}

std::int64_t workspace_bytes(const AttentionShape& s) {
  return s.batch * s.heads * blocks_of(s.sequence, kQueries) * (kSumsOfBlock + kStatisticsOfBlock) * std::int64_t(4);
}

void backward(const Stream& stream, const Arguments& a) {
  check_plain(a.document_start == nullptr, "attention: warpgroups do not take documents");
  expect_room(a, workspace_bytes(a.shape));
  const Problem p = problem_of(a);
  const AttentionShape& s = a.shape;
  const Maps maps{.q = map_of(s, a.q, s.heads, kQueries),
                  .k = map_of(s, a.k, s.kv_heads, kKeys),
                  .v = map_of(s, a.v, s.kv_heads, kKeys),
                  .dout = map_of(s, a.dout, s.heads, kQueries),
                  .dk = map_of(s, a.dk, s.kv_heads, kBox),
                  .dv = map_of(s, a.dv, s.kv_heads, kBox)};
  [[maybe_unused]] static const bool ready = [] {
    check_launch(cudaFuncSetAttribute(backward_blocks, cudaFuncAttributeMaxDynamicSharedMemorySize, kScratch),
                 "shared memory");
    return true;
  }();
  const cudaStream_t queue = exec_of(stream).cuda_stream();
  prepare(queue, p, a);
  backward_blocks<<<p.batch * p.kv_heads * p.key_blocks, kAllThreads, kScratch, queue>>>(maps, p);
  check_launch(cudaGetLastError(), "launch");
  finish(queue, p, a);
}

}  // namespace mylos::kernels::attention::warpgroups
