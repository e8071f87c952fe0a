#include "train/ledger.hpp"

#include "model/parameters.hpp"
#include "optimizer/cost.hpp"

namespace mylos::train {

std::vector<model::OpCost> step_ledger(const Config& c) {
  const model::ParameterLayout layout = model::parameter_layout(c.model);
  const optimizer::UpdateCost cost =
      optimizer::update_cost(c.optimizer, optimizer::parameters_of(c.model, layout), c.train.storage);
  std::vector<model::OpCost> ledger =
      model::step_ledger(c.model, execution(c),
                         {.micro_batches = c.train.accumulation,
                          .optimizer_bytes_per_parameter = cost.state_bytes / double(layout.count)});
  if (cost.newton_schulz_calls > 0)
    ledger.push_back({"newton_schulz", model::Phase::optimizer, cost.newton_schulz_calls, cost.newton_schulz_flops,
                      cost.newton_schulz_bytes, c.optimizer.muon_dtype});
  return ledger;
}

}  // namespace mylos::train
