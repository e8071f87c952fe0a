// Lion (Chen et al. 2023; kernels/lion). State: momentum [total].
#pragma once

#include "optimizer/optimizer.hpp"

namespace mylos::optimizer {

class Lion final : public Optimizer {
 public:
  Lion(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed, Arena& arena);

 private:
  void start(const Stream& stream, const Tensor& weights) override;
  void rule(const Update& update) override;
  void list(std::vector<State>& states) const override;

  Tensor m_;
};

}  // namespace mylos::optimizer
