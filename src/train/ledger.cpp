#include "train/ledger.hpp"

#include "optimizer/adamw.hpp"

namespace mylos::train {

std::vector<model::OpCost> step_ledger(const Config& c) {
  return model::step_ledger(
      c.model, execution(c),
      {.micro_batches = c.train.accumulation,
       .optimizer_bytes_per_parameter = optimizer::state_bytes_moved(c.optimizer, c.train.storage)});
}

}  // namespace mylos::train
