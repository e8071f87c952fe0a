// What stands before and behind the blocks of the backward pass.
#include <cmath>
#include <numbers>

#include "kernels/attention/warpgroups.hpp"
#include "kernels/detail/hopper.hpp"
#include "kernels/detail/pack.hpp"

namespace mylos::kernels::attention::warpgroups {
namespace {

constexpr int kPack = 8;
template <int kHead>
constexpr int kPacks = kHead / kPack;  // of a row

__device__ inline const bf16* row_of(const Window& w, int batch, int token, int head) {
  return static_cast<const bf16*>(w.data) + batch * w.batch + token * w.token + head * w.head;
}

// Of a head's queries. The last ones come first: what the launch before left in the L2 cache is what it wrote last, and the next one begins at the other end.
struct Place {
  int block, head, batch;
};
__device__ inline Place place_of_block() {
  return {int(gridDim.x - 1 - blockIdx.x), int(gridDim.y - 1 - blockIdx.y), int(gridDim.z - 1 - blockIdx.z)};
}

// All that a thread reads is under way before it uses any.
template <int kHead>
__global__ void __launch_bounds__(kThreads)
    prepare_block(const Problem p, const Window out, const Window dout, const float* lse) {
  constexpr int kRows = kQueries<kHead> * kPacks<kHead> / kThreads, kRowsAtOnce = kThreads / kPacks<kHead>;
  const auto [block, head, batch] = place_of_block();
  const int piece = int(threadIdx.x) % kPacks<kHead>, first = int(threadIdx.x) / kPacks<kHead>;
  const std::int64_t place = p.block_of(batch, head, block);
  if constexpr (kBlocksLast<kHead>)
    if (place == 0 && threadIdx.x == 0) *p.taken = 0;
  Words<kPack, bf16> x[kRows]{}, y[kRows]{};
  float lse2[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int token = block * kQueries<kHead> + first + i * kRowsAtOnce;
    lse2[i] = INFINITY;
    if (token >= p.sequence) continue;
    x[i] = load_words<kPack>(row_of(out, batch, token, head) + piece * kPack);
    y[i] = load_words<kPack>(row_of(dout, batch, token, head) + piece * kPack);
    if (piece == 0) lse2[i] = lse[(std::int64_t(batch) * p.heads + head) * p.sequence + token];
  }
  float4* const sums = reinterpret_cast<float4*>(p.sums + place * kSumsOfBlock);
#pragma unroll
  for (int i = 0; i < kSumsOfBlock / 4 / kThreads; ++i)
    sums[i * kThreads + int(threadIdx.x)] = {0.0f, 0.0f, 0.0f, 0.0f};
  float* const statistics = p.statistics + place * kStatisticsOfBlock<kHead>;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const Floats<kPack> a = to_floats(x[i]), b = to_floats(y[i]);
    float sum = 0.0f;
    for (int k = 0; k < kPack; ++k) sum += a.v[k] * b.v[k];
    for (int far = kPacks<kHead> / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
    if (piece != 0) continue;
    const int row = first + i * kRowsAtOnce;
    float* const pair = statistics + row / 2 * 4 + row % 2;
    pair[0] = lse2[i] * std::numbers::log2e_v<float>;
    pair[2] = sum;
  }
}

// Of four neighbouring lanes, lane i gets their words i in the lanes' order.
__device__ inline void transpose(std::uint32_t (&words)[4]) {
#pragma unroll
  for (int far = 1; far < 4; far *= 2)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & far) continue;
      const bool upper = threadIdx.x & far;
      const std::uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + far], far);
      (upper ? words[i] : words[i + far]) = other;
    }
}

// A thread reads the sums that one of the backward pass added up: two neighbours of each 8 columns of a row, and of the row 8 further on. Four threads have the
// rest of these columns.
template <int kHead>
__global__ void __launch_bounds__(kThreads) finish_block(const Problem p, const Window dq) {
  const auto [block, head, batch] = place_of_block();
  const int half = int(threadIdx.x) / 128, thread = int(threadIdx.x) % 128, lane = thread % 32;
  const float4* const sums =
      reinterpret_cast<const float4*>(p.sums + p.block_of(batch, head, block) * kSumsOfBlock + half * kSumsOfHalf);
  float4 x[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] = sums[j * 128 + thread];
  const int row = (kHead == 64 ? half * 64 : 0) + thread / 32 * 16 + lane / 4,
            column = (kHead == 64 ? 0 : half * 64) + lane % 4 * kPack;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = block * kQueries<kHead> + row + 8 * i;
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      Words<kPack, bf16> words;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float4& four = x[4 * g + n];
        const Floats<2> two{{p.scale * (i == 0 ? four.x : four.z), p.scale * (i == 0 ? four.y : four.w)}};
        words.v[n] = to_words<bf16>(two).v[0];
      }
      transpose(words.v);
      if (token < p.sequence)
        store_words(const_cast<bf16*>(row_of(dq, batch, token, head)) + column + 4 * kPack * g, words);
    }
  }
}

dim3 grid_of(const Problem& p) { return {unsigned(p.query_blocks), unsigned(p.heads), unsigned(p.batch)}; }

}  // namespace

template <int kHead>
void prepare(cudaStream_t stream, const Problem& p, const Arguments& a) {
  prepare_block<kHead><<<grid_of(p), kThreads, 0, stream>>>(p, a.out, a.dout, a.lse);
  hopper::check_launch(cudaGetLastError(), "launch");
}

template <int kHead>
void finish(cudaStream_t stream, const Problem& p, const Arguments& a) {
  finish_block<kHead><<<grid_of(p), kThreads, 0, stream>>>(p, a.dq);
  hopper::check_launch(cudaGetLastError(), "launch");
}

template void prepare<64>(cudaStream_t, const Problem&, const Arguments&);
template void prepare<128>(cudaStream_t, const Problem&, const Arguments&);
template void finish<64>(cudaStream_t, const Problem&, const Arguments&);
template void finish<128>(cudaStream_t, const Problem&, const Arguments&);

}  // namespace mylos::kernels::attention::warpgroups
