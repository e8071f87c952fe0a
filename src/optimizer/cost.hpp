// What one update moves and computes, for the ledger of a step (train/ledger.hpp).
#pragma once

#include "optimizer/config.hpp"
#include "optimizer/parameters.hpp"

namespace mylos::optimizer {

struct UpdateCost {
  // Bytes of state read and written, all parameters together; weights and gradients are not counted, but Muon's directions are.
  double state_bytes = 0;
  // Newton-Schulz iterations of all matrices; 0 calls: none.
  std::int64_t newton_schulz_calls = 0;
  double newton_schulz_flops = 0, newton_schulz_bytes = 0;
};

UpdateCost update_cost(const OptimizerConfig& config, const Parameters& parameters, DType storage);

}  // namespace mylos::optimizer
