// The FLOP ledger of one optimizer step of a configuration (model/flops.hpp), the optimizer's state included.
#pragma once

#include <vector>

#include "model/flops.hpp"
#include "train/config.hpp"

namespace mylos::train {

std::vector<model::OpCost> step_ledger(const Config& config);

}  // namespace mylos::train
