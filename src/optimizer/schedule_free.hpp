// Schedule-Free AdamW (Defazio et al. 2024; kernels/schedule_free): no end needs to be known beforehand, since the average x of all
// steps takes the place of a falling learning rate.
//
// The weights are y, where gradients are taken. State: z [total] (f32 beside exact weights, else bf16), moment2 [total], squared_rates [1]
// f64 (the sum of squared learning rates that x is weighted by). Evaluated and saved is x = (y - (1-beta1)·z) / beta1: show_average() lets
// it take y's place, while y waits in memory that the caller can spare (TrainStep: the gradients).
#pragma once

#include "optimizer/optimizer.hpp"

namespace mylos::optimizer {

class ScheduleFree final : public Optimizer {
 public:
  ScheduleFree(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed,
               Arena& arena);

  bool averages() const override { return true; }
  void show_average(const Stream& stream, const Tensor& weights, const Tensor& spare) override;

 private:
  void start(const Stream& stream, const Tensor& weights) override;
  void rule(const Update& update) override;
  void list(std::vector<State>& states) const override;

  Tensor z_, v_, squared_rates_, average_;
};

}  // namespace mylos::optimizer
