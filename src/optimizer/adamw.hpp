// AdamW (Loshchilov and Hutter 2019; kernels/adamw). State: moment1 and moment2 [total].
#pragma once

#include "kernels/adamw/adamw.hpp"
#include "optimizer/optimizer.hpp"

namespace mylos::optimizer {

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed, Arena& arena);

 private:
  void start(const Stream& stream, const Tensor& weights) override;
  void rule(const Update& update) override;
  void list(std::vector<State>& states) const override;

  Tensor m_, v_;
};

// The step of AdamW with a configuration's numbers.
kernels::AdamWStep adamw_step(const kernels::FlatStep& flat, const OptimizerConfig& config);

}  // namespace mylos::optimizer
