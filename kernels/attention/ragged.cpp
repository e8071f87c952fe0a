#include "kernels/attention/ragged.hpp"

#include <algorithm>
#include <span>

#include "kernels/attention/document_tables.hpp"

namespace mylos::kernels::attention {
namespace {

constexpr std::int64_t kSlack = 1 << 20;  // tables and alignment
// One call is worth some memory: two or three by length take 1.2 to 1.4 times as long.
constexpr std::int64_t kAffordable = std::int64_t(2) << 30, kTimesDense = 16;

std::int64_t up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

RaggedCall call_of(const AttentionShape& s, std::int64_t longest, std::int64_t room, bool deterministic) {
  const std::int64_t tokens = s.batch * s.sequence, group = s.heads / s.kv_heads, padded_tokens = room * longest;
  const std::int64_t fused = (s.heads + 2 * s.kv_heads) * s.head_size, q = s.heads * s.head_size;
  const std::int64_t scores = deterministic ? room * s.heads * up(longest, 64) * up(longest, 128) * 2 : 0;
  const auto sums = [&](std::int64_t of, std::int64_t dq, std::int64_t dk_dv) {
    return of * ((deterministic ? 0 : dq * 4) + (group > 1 ? dk_dv : 0) + s.heads * 4);
  };
  const std::int64_t packed = sums(tokens, fused, fused * group * 8), padded = sums(padded_tokens, q, q * 4);
  return {deterministic, packed < padded, scores + std::min(packed, padded) + kSlack};
}

// In microseconds, any order and deterministic, H200: 32 documents of 64 tokens, 12 heads of 64: 39 and 31; of 256: 105 and
// 102; 8 of 1,024: 170 and 195. 16 of 512, 32/8 heads of 128: 482 and 441; 21 of at most 1,088: 650 and 558.
bool deterministic_is_faster(const AttentionShape& s, std::int64_t longest) { return longest <= 10 * s.head_size; }

std::int64_t dense_bytes(const AttentionShape& s, bool deterministic) {
  return call_of(s, s.sequence, s.batch, deterministic).workspace;
}

}  // namespace

std::int64_t ragged_budget(const AttentionShape& shape, bool deterministic) {
  std::int64_t bytes =
      std::max(dense_bytes(shape, deterministic), std::min(kTimesDense * dense_bytes(shape, true), kAffordable));
  const DocumentTables largest = tables_of(shape, largest_bucket(shape));
  for (const DocumentClass& c : std::span(largest.classes).first(std::size_t(largest.count)))
    bytes = std::max(bytes, call_of(shape, c.longest, c.room, deterministic).workspace);
  return bytes;
}

RaggedCall ragged_call(const AttentionShape& shape, std::int64_t longest, std::int64_t room, bool deterministic) {
  const RaggedCall call = call_of(shape, longest, room, true);
  if (deterministic) return call;
  const bool pays = deterministic_is_faster(shape, longest) && call.workspace <= ragged_budget(shape, false);
  return pays ? call : call_of(shape, longest, room, false);
}

}  // namespace mylos::kernels::attention
