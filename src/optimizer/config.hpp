// The sections [optimizer] and [schedule].
#pragma once

#include <cstdint>

#include "base/config.hpp"
#include "tensor/dtype.hpp"

namespace mylos::optimizer {

// What is kept beside bf16 weights so that small updates are not lost.
enum class Master {
  none,   // nothing; bf16 weights are rounded stochastically
  exact,  // the lower 16 bits of an fp32 weight (f32 weights need nothing and ignore this)
};

struct OptimizerConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;   // of matrices and the embedding; norm weights have none
  double max_grad_norm = 1.0;  // 0: never clipped
  Master master = Master::exact;
  DType moments = DType::f32;  // f32, or bf16 with stochastic rounding
};
void bind(ConfigBinder& keys, OptimizerConfig& config);

enum class ScheduleShape { cosine, linear, constant };

struct ScheduleConfig {
  ScheduleShape shape = ScheduleShape::cosine;
  double learning_rate = 3e-4;  // the peak
  double final_fraction = 0.1;  // of the peak, at the end of cosine and linear
  std::int64_t warmup = 0;      // steps
  std::int64_t length = 0;      // steps from the first to the final learning rate; 0: train.steps
};
void bind(ConfigBinder& keys, ScheduleConfig& config);

}  // namespace mylos::optimizer
