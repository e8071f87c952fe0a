// The sections [optimizer] and [schedule].
#pragma once

#include <cstdint>

#include "base/config.hpp"
#include "tensor/dtype.hpp"

namespace mylos::optimizer {

// The update rules, in the order of their registration (registry.cpp).
enum class Rule { adamw, lion, muon, schedule_free, sgd };

// What is kept beside bf16 weights so that small updates are not lost.
enum class Master {
  none,   // nothing; bf16 weights are rounded stochastically
  exact,  // the lower 16 bits of an fp32 weight (f32 weights need nothing and ignore this)
};

// How Muon scales the orthogonal direction of a matrix [rows, columns].
enum class MuonScale {
  match_rms,  // 0.2·sqrt(max(rows, columns)): the root mean square of AdamW's updates (Liu et al. 2025), with AdamW's learning rates
  spectral,  // sqrt(max(1, rows/columns)): Jordan's; its learning rates are near 0.02
};

struct OptimizerConfig {
  // Stands for the value that suits the rule, and must stand where the rule has no such number; resolve() fills it in.
  static constexpr double kOwn = -1;

  Rule name = Rule::adamw;
  double beta1 = kOwn;
  double beta2 = kOwn;
  double eps = kOwn;
  double momentum = kOwn;
  bool nesterov = true;        // muon and sgd
  double weight_decay = 0.1;   // of matrices and the embedding; norm weights have none
  double max_grad_norm = 1.0;  // 0: never clipped
  MuonScale muon_scale = MuonScale::match_rms;
  std::int64_t muon_iterations = 5;
  DType muon_dtype = DType::bf16;  // of the Newton-Schulz iteration
  double muon_adamw = 1.0;         // learning rate of the parameters that Muon leaves to AdamW, as a factor
  Master master = Master::exact;
  DType moments = DType::f32;  // f32, or bf16 with stochastic rounding
};
void bind(ConfigBinder& keys, OptimizerConfig& config);
// Every number that the rule has is filled in, idempotently. Throws Error that names the key when one is out of range, or given
// to a rule that has none.
OptimizerConfig resolve(OptimizerConfig config);
// That the gradients can keep the training weights during an evaluation (schedule_free).
void check_storage(const OptimizerConfig& config, DType storage, DType gradients);

enum class ScheduleShape { cosine, linear, constant, wsd, rex };
enum class Cooldown { linear, cosine, one_minus_sqrt };

struct ScheduleConfig {
  ScheduleShape shape = ScheduleShape::cosine;
  double learning_rate = 3e-4;  // the peak
  double final_fraction = 0.1;  // of the peak, at the end of every shape but constant
  std::int64_t warmup = 0;      // steps
  std::int64_t length = 0;      // steps from the first to the final learning rate; 0: train.steps
  std::int64_t cooldown = 0;    // wsd: steps of the fall at the end of the length; 0: a fifth of the length
  Cooldown cooldown_shape = Cooldown::linear;
};
void bind(ConfigBinder& keys, ScheduleConfig& config);

}  // namespace mylos::optimizer
