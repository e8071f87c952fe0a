#include "optimizer/config.hpp"

namespace mylos::optimizer {

void bind(ConfigBinder& keys, OptimizerConfig& config) {
  keys.real("beta1", config.beta1, 0.0, 0.999999, "decay of the first moment");
  keys.real("beta2", config.beta2, 0.0, 0.999999, "decay of the second moment");
  keys.real("eps", config.eps, 1e-30, 1.0, "added to the root of the second moment");
  keys.real("weight_decay", config.weight_decay, 0.0, 10.0,
            "decoupled weight decay of matrices and the embedding; norm weights have none");
  keys.real("max_grad_norm", config.max_grad_norm, 0.0, 1e30,
            "gradients are scaled down to this global norm; 0: never");
  keys.choice("master", config.master, {"none", "exact"},
              "beside bf16 weights: the lower 16 bits of an exact fp32 weight, or nothing (weights are then rounded "
              "stochastically)");
  keys.choice("moments", config.moments, {"f32", "bf16"}, "storage of Adam's moments; bf16 is rounded stochastically");
}

void bind(ConfigBinder& keys, ScheduleConfig& config) {
  constexpr std::int64_t kMost = std::int64_t(1) << 40;
  keys.choice("shape", config.shape, {"cosine", "linear", "constant"}, "how the learning rate falls after warm-up");
  keys.real("learning_rate", config.learning_rate, 0.0, 1e30, "the peak, reached at the end of warm-up");
  keys.real("final_fraction", config.final_fraction, 0.0, 1.0, "of the peak, at the end of cosine and linear");
  keys.integer("warmup", config.warmup, 0, kMost, "steps of linear warm-up; the first step already trains");
  keys.integer("length", config.length, 0, kMost, "steps from the first to the final learning rate; 0: train.steps");
}

}  // namespace mylos::optimizer
