#include "optimizer/parameters.hpp"

#include <string_view>

#include "base/error.hpp"

namespace mylos::optimizer {
namespace {

// Rows of each part of a block's matrix.
std::vector<std::int64_t> rows_of_parts(const model::ModelConfig& c, const model::ParameterInfo& p) {
  const std::string_view name = p.name;
  if (name.ends_with("attention.qkv.weight"))
    return {c.heads * c.head_size, c.kv_heads * c.head_size, c.kv_heads * c.head_size};
  if (name.ends_with("ffn.gate_up.weight")) return {c.ffn, c.ffn};
  return {p.shape[0]};
}

}  // namespace

Parameters parameters_of(const model::ModelConfig& config, const model::ParameterLayout& layout) {
  Parameters all{.decay_end = layout.decay_end, .total = layout.total};
  all.shard = {0, layout.total};
  for (const model::ParameterInfo& p : layout.parameters) {
    if (p.shape.size() != 2 || !p.name.starts_with("layers.")) {
      check(all.matrices.empty() || p.offset >= all.hidden.end, "{} lies among the hidden matrices", p.name);
      continue;
    }
    if (all.matrices.empty()) all.hidden = {p.offset, p.offset};
    std::int64_t offset = p.offset;
    for (const std::int64_t rows : rows_of_parts(config, p)) {
      all.matrices.push_back({offset, rows, p.shape[1]});
      offset = all.matrices.back().end();
    }
    check(offset == p.offset + p.size, "the parts of {} have {} of its {} elements", p.name, offset - p.offset, p.size);
    all.hidden.end = offset;
  }
  return all;
}

}  // namespace mylos::optimizer
