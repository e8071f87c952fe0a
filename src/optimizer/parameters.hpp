// What an optimizer knows of a model's flat buffer: which elements decay, which are hidden matrices, and which part is its own.
//
//   [0, decay_end) decays, [decay_end, total) does not. `matrices` are those of the blocks, fused ones cut into their parts (q, k, v; gate,
//   up: rows follow each other, so each part is a dense matrix); all lie in [hidden_begin, hidden_end), which holds nothing else
//   but the gaps between them. What is outside (embedding, head, norm weights) is not for Muon.
//   [begin, end): the shard that an optimizer updates and holds state of, in flat elements.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters.hpp"

namespace mylos::optimizer {

struct MatrixPart {
  std::int64_t offset, rows, columns;
  std::int64_t end() const { return offset + rows * columns; }
};

struct FlatRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

struct Parameters {
  std::int64_t decay_end = 0, total = 0;
  std::vector<MatrixPart> matrices = {};  // by offset
  FlatRange hidden = {};
  FlatRange shard = {};  // empty: [0, total)
};

// Of the whole model; a sharded run sets `shard`.
Parameters parameters_of(const model::ModelConfig& resolved, const model::ParameterLayout& layout);

}  // namespace mylos::optimizer
