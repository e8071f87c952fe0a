#include "optimizer/config.hpp"

#include <vector>

#include "base/error.hpp"
#include "optimizer/registry.hpp"

namespace mylos::optimizer {

void bind(ConfigBinder& keys, OptimizerConfig& config) {
  constexpr double kOwn = OptimizerConfig::kOwn;
  keys.choice("name", config.name, optimizer_names(), "the update rule (docs/optimizers.md)");
  keys.real("beta1", config.beta1, kOwn, 0.999999, "decay of the first moment; -1: 0.9");
  keys.real("beta2", config.beta2, kOwn, 0.999999,
            "decay of the second moment, of lion the momentum; -1: 0.95, lion 0.99, schedule_free 0.999");
  keys.real("eps", config.eps, kOwn, 1.0, "added to the root of the second moment; -1: 1e-8");
  keys.real("momentum", config.momentum, kOwn, 0.999999, "decay of the sum of gradients; -1: muon 0.95, sgd 0.9");
  keys.flag("nesterov", config.nesterov, "muon and sgd: momentum as it will be after the next gradient");
  keys.real("weight_decay", config.weight_decay, 0.0, 10.0,
            "decoupled weight decay of matrices and the embedding; norm weights have none");
  keys.real("max_grad_norm", config.max_grad_norm, 0.0, 1e30,
            "gradients are scaled down to this global norm; 0: never");
  keys.choice(
      "muon_scale", config.muon_scale, {"match_rms", "spectral"},
      "muon: factor of an orthogonal direction, 0.2 * sqrt(max(rows, columns)) or sqrt(max(1, rows / columns))");
  keys.integer("muon_iterations", config.muon_iterations, 1, 100, "muon: Newton-Schulz iterations");
  keys.choice("muon_dtype", config.muon_dtype, {"f32", "bf16"}, "muon: storage of the Newton-Schulz iteration");
  keys.real("muon_adamw", config.muon_adamw, 0.0, 1e6,
            "muon: learning rate of embedding, head and norm weights (AdamW), as a factor of the schedule's");
  keys.choice("master", config.master, {"none", "exact"},
              "beside bf16 weights: the lower 16 bits of an exact fp32 weight, or nothing (weights are then rounded "
              "stochastically)");
  keys.choice("moments", config.moments, {"f32", "bf16"},
              "storage of moments and momentum; bf16 is rounded stochastically");
}

void bind(ConfigBinder& keys, ScheduleConfig& config) {
  constexpr std::int64_t kMost = std::int64_t(1) << 40;
  keys.choice("shape", config.shape, {"cosine", "linear", "constant", "wsd", "rex"},
              "how the learning rate falls after warm-up; wsd: not before the cooldown at the end");
  keys.real("learning_rate", config.learning_rate, 0.0, 1e30, "the peak, reached at the end of warm-up");
  keys.real("final_fraction", config.final_fraction, 0.0, 1.0, "of the peak, at the end of all shapes but constant");
  keys.integer("warmup", config.warmup, 0, kMost, "steps of linear warm-up; the first step already trains");
  keys.integer("length", config.length, 0, kMost, "steps from the first to the final learning rate; 0: train.steps");
  keys.integer("cooldown", config.cooldown, 0, kMost,
               "wsd: steps of the fall at the end of the length; 0: a fifth of the length");
  keys.choice("cooldown_shape", config.cooldown_shape, {"linear", "cosine", "1-sqrt"}, "wsd: how it falls there");
}

namespace {

// What a rule has. A number that it has not must be left out.
struct Defaults {
  double beta1, beta2, eps, momentum;
};
constexpr double kNone = OptimizerConfig::kOwn;

Defaults defaults_of(Rule rule) {
  switch (rule) {
    case Rule::adamw:
      break;
    case Rule::lion:
      return {0.9, 0.99, kNone, kNone};
    case Rule::muon:
      return {0.9, 0.95, 1e-8, 0.95};
    case Rule::schedule_free:
      return {0.9, 0.999, 1e-8, kNone};
    case Rule::sgd:
      return {kNone, kNone, kNone, 0.9};
  }
  return {0.9, 0.95, 1e-8, kNone};
}

void fill_in(const char* key, double& value, double own, Rule rule) {
  const char* name = optimizer_names()[std::size_t(rule)];
  if (own == kNone) {
    check(value == kNone, "optimizer.{} is {}, but optimizer.name = \"{}\" has none; leave it out", key, value, name);
    return;
  }
  if (value == kNone) value = own;
  check(value >= 0, "optimizer.{} is {}; it must be at least 0, or -1 for the value that suits \"{}\" ({})", key, value,
        name, own);
}

}  // namespace

OptimizerConfig resolve(OptimizerConfig c) {
  const char* name = optimizer_names()[std::size_t(c.name)];
  const Defaults own = defaults_of(c.name);
  fill_in("beta1", c.beta1, own.beta1, c.name);
  fill_in("beta2", c.beta2, own.beta2, c.name);
  fill_in("eps", c.eps, own.eps, c.name);
  fill_in("momentum", c.momentum, own.momentum, c.name);
  check(own.eps == kNone || c.eps > 0, "optimizer.eps is 0; a parameter that never had a gradient needs it above 0");
  check(c.name != Rule::schedule_free || c.beta1 > 0,
        "optimizer.beta1 is {}, but schedule_free evaluates x = (y - (1 - beta1) z) / beta1; give one above 0",
        c.beta1);
  const auto only = [&](const char* key, bool given, bool has, const char* who) {
    check(!given || has, "optimizer.{} is of {}; leave it out with optimizer.name = \"{}\"", key, who, name);
  };
  const OptimizerConfig plain;
  const bool muon = c.name == Rule::muon;
  only("nesterov", c.nesterov != plain.nesterov, muon || c.name == Rule::sgd, "muon and sgd");
  only("muon_scale", c.muon_scale != plain.muon_scale, muon, "muon");
  only("muon_iterations", c.muon_iterations != plain.muon_iterations, muon, "muon");
  only("muon_dtype", c.muon_dtype != plain.muon_dtype, muon, "muon");
  only("muon_adamw", c.muon_adamw != plain.muon_adamw, muon, "muon");
  return c;
}

void check_storage(const OptimizerConfig& c, DType storage, DType gradients) {
  check(c.name != Rule::schedule_free || size_of(gradients) >= size_of(storage),
        "train.gradients is {} beside train.storage {}, but optimizer.name = \"schedule_free\" keeps the training "
        "weights in "
        "the gradients' memory during an evaluation; give train.gradients = \"{}\"",
        mylos::name_of(gradients), mylos::name_of(storage), mylos::name_of(storage));
}

}  // namespace mylos::optimizer
