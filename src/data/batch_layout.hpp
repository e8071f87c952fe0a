// How a step's samples are dealt: micro-batch m of all ranks together is a run of ranks·batch places of the endless order,
// rank after rank. So any number of ranks, and any split into micro-batches, sees the same samples in a step, and step s
// reads places s·G .. s·G + G - 1, G the samples of a step over all ranks: resuming needs the step number alone.
#pragma once

#include <cstdint>

#include "base/error.hpp"

namespace mylos::data {

struct BatchLayout {
  std::int64_t batch = 1;          // B rows of a micro-batch on one rank
  std::int64_t micro_batches = 1;  // of a step
  std::int64_t ranks = 1;          // data-parallel
  std::int64_t rank = 0;

  std::int64_t samples_per_step() const { return batch * micro_batches * ranks; }
};

inline void check_layout(const BatchLayout& l) {
  check(l.batch >= 1 && l.micro_batches >= 1 && l.ranks >= 1 && l.rank >= 0 && l.rank < l.ranks,
        "a batch layout of {} rows, {} micro-batches, rank {} of {}: each count must be at least 1", l.batch,
        l.micro_batches, l.rank, l.ranks);
}

// Place in the endless order.
inline std::int64_t place_of(const BatchLayout& l, std::int64_t step, std::int64_t micro_batch, std::int64_t row) {
  return step * l.samples_per_step() + (micro_batch * l.ranks + l.rank) * l.batch + row;
}

}  // namespace mylos::data
