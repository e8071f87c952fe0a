// What stands before and behind the blocks of the backward pass.
#include <cmath>
#include <numbers>

#include "kernels/attention/warpgroups.hpp"
#include "kernels/detail/hopper.hpp"
#include "kernels/detail/pack.hpp"

namespace mylos::kernels::attention::warpgroups {
namespace {

constexpr int kPack = 8, kPacks = kHead / kPack, kRowsAtOnce = kThreads / kPacks;

__device__ inline const bf16* row_of(const Window& w, int batch, int token, int head) {
  return static_cast<const bf16*>(w.data) + batch * w.batch + token * w.token + head * w.head;
}

__global__ void __launch_bounds__(kThreads)
    prepare_block(const Problem p, const Window out, const Window dout, const float* lse) {
  const int block = int(blockIdx.x), head = int(blockIdx.y), batch = int(blockIdx.z), piece = int(threadIdx.x) % kPacks;
  const std::int64_t place = p.block_of(batch, head, block);
  float* const statistics = p.statistics + place * kStatisticsOfBlock;
  for (int row = int(threadIdx.x) / kPacks; row < kQueries; row += kRowsAtOnce) {
    const int token = block * kQueries + row;
    float sum = 0.0f;
    if (token < p.sequence) {
      const Floats<kPack> x = load<kPack>(row_of(out, batch, token, head) + piece * kPack),
                          y = load<kPack>(row_of(dout, batch, token, head) + piece * kPack);
      for (int i = 0; i < kPack; ++i) sum += x.v[i] * y.v[i];
    }
    for (int far = kPacks / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
    if (piece != 0) continue;
    float* const pair = statistics + row / 2 * 4 + row % 2;
    pair[0] = token < p.sequence
                  ? lse[(std::int64_t(batch) * p.heads + head) * p.sequence + token] * std::numbers::log2e_v<float>
                  : INFINITY;
    pair[2] = sum;
  }
  float4* const sums = reinterpret_cast<float4*>(p.sums + place * kSumsOfBlock);
  for (int i = int(threadIdx.x); i < kSumsOfBlock / 4; i += kThreads) sums[i] = {0.0f, 0.0f, 0.0f, 0.0f};
}

// A row's pack of 8 columns is in the sums of four threads, two columns each; beside them lies the row 8 further on.
__global__ void __launch_bounds__(kThreads) finish_block(const Problem p, const Window dq) {
  const int block = int(blockIdx.x), head = int(blockIdx.y), batch = int(blockIdx.z);
  const float* const sums = p.sums + p.block_of(batch, head, block) * kSumsOfBlock;
  for (int i = int(threadIdx.x); i < kQueries * kPacks; i += kThreads) {
    const int piece = i % kPacks, line = i / kPacks, row = line / 16 * 16 + line % 2 * 8 + line % 16 / 2,
              token = block * kQueries + row;
    if (token >= p.sequence) continue;
    const float* const four =
        sums + piece / 8 * (kSumsOfBlock / 2) + piece % 8 * 512 + (row / 16 * 32 + row % 8 * 4) * 4 + row % 16 / 8 * 2;
    Floats<kPack> x;
    for (int k = 0; k < 4; ++k) {
      const float2 two = *reinterpret_cast<const float2*>(four + 4 * k);
      x.v[2 * k] = p.scale * two.x;
      x.v[2 * k + 1] = p.scale * two.y;
    }
    store(const_cast<bf16*>(row_of(dq, batch, token, head)) + piece * kPack, x);
  }
}

dim3 grid_of(const Problem& p) { return {unsigned(p.query_blocks), unsigned(p.heads), unsigned(p.batch)}; }

}  // namespace

void prepare(cudaStream_t stream, const Problem& p, const Arguments& a) {
  prepare_block<<<grid_of(p), kThreads, 0, stream>>>(p, a.out, a.dout, a.lse);
  hopper::check_launch(cudaGetLastError(), "launch");
}

void finish(cudaStream_t stream, const Problem& p, const Arguments& a) {
  finish_block<<<grid_of(p), kThreads, 0, stream>>>(p, a.dq);
  hopper::check_launch(cudaGetLastError(), "launch");
}

}  // namespace mylos::kernels::attention::warpgroups
