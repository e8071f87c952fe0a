// The backward pass by warpgroups as a provider: what it takes, the workspace it wants, and its three launches one behind the other.
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "kernels/attention/warpgroups_blocks.hpp"
#include "tensor/detail/exec.hpp"

namespace mylos::kernels::attention::warpgroups {
namespace {

int blocks_of(std::int64_t n, int size) { return int((n + size - 1) / size); }

std::int64_t query_blocks_of(const AttentionShape& s) {
  return blocks_of(s.sequence, s.head_size == 64 ? kQueries<64> : kQueries<128>);
}

std::int64_t statistics_of_block(const AttentionShape& s) {
  return s.head_size == 64 ? kStatisticsOfBlock<64> : kStatisticsOfBlock<128>;
}

Problem problem_of(const Arguments& a) {
  const AttentionShape& s = a.shape;
  Problem p{.batch = int(s.batch),
            .sequence = int(s.sequence),
            .heads = int(s.heads),
            .kv_heads = int(s.kv_heads),
            .key_blocks = blocks_of(s.sequence, kKeys),
            .query_blocks = int(query_blocks_of(s)),
            .scale = 1.0f / std::sqrt(float(s.head_size)),
            .sums = static_cast<float*>(a.workspace),
            .statistics = nullptr,
            .taken = nullptr};
  p.statistics = p.sums + p.block_of(p.batch, 0, 0) * kSumsOfBlock;
  p.taken = reinterpret_cast<int*>(p.statistics + p.block_of(p.batch, 0, 0) * statistics_of_block(s));
  return p;
}

CUtensorMap map_of(const AttentionShape& s, const Window& w, std::int64_t heads, int rows) {
  return hopper::map_of(w.data, std::array{s.head_size, s.sequence, heads, s.batch},
                        std::array{w.token, w.head, w.batch}, std::array{kBox, rows});
}

template <int kHead>
void launch(cudaStream_t stream, const Arguments& a) {
  const Problem p = problem_of(a);
  const AttentionShape& s = a.shape;
  const Maps maps{.q = map_of(s, a.q, s.heads, kQueries<kHead>),
                  .k = map_of(s, a.k, s.kv_heads, kKeys),
                  .v = map_of(s, a.v, s.kv_heads, kKeys),
                  .dout = map_of(s, a.dout, s.heads, kQueries<kHead>),
                  .dk = map_of(s, a.dk, s.kv_heads, kBox),
                  .dv = map_of(s, a.dv, s.kv_heads, kBox)};
  prepare<kHead>(stream, p, a);
  gradients<kHead>(stream, p, maps);
  finish<kHead>(stream, p, a);
}

}  // namespace

bool supports(const AttentionShape& s, DType dtype) {
  constexpr std::int64_t kMost = std::int64_t(1) << 30;  // blocks are counted in 32 bits
  return is_hopper() && dtype == DType::bf16 && (s.head_size == 64 || s.head_size == 128) && s.heads <= 65535 &&
         s.batch <= 65535 && s.batch * s.kv_heads * blocks_of(s.sequence, kKeys) < kMost;
}

std::int64_t workspace_bytes(const AttentionShape& s) {
  const std::int64_t blocks = s.batch * s.heads * query_blocks_of(s);
  return blocks * (kSumsOfBlock + statistics_of_block(s)) * std::int64_t(sizeof(float)) + std::int64_t(sizeof(int));
}

void backward(const Stream& stream, const Arguments& a) {
  check_plain(a.document_start == nullptr, "attention: warpgroups do not take documents");
  expect_room(a, workspace_bytes(a.shape));
  const cudaStream_t queue = exec_of(stream).cuda_stream();
  a.shape.head_size == 64 ? launch<64>(queue, a) : launch<128>(queue, a);
}

}  // namespace mylos::kernels::attention::warpgroups
