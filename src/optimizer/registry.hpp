// The optimizers by name. A new one is a class like those beside this file and a line in registry.cpp (and in Rule).
#pragma once

#include <memory>
#include <vector>

#include "optimizer/optimizer.hpp"

namespace mylos::optimizer {

// In the order of Rule.
const std::vector<const char*>& optimizer_names();

// Lays out its state from the arena. Throws Error that names the key when a number does not suit the rule.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const Parameters& parameters, DType storage,
                                          std::uint64_t seed, Arena& arena);

}  // namespace mylos::optimizer
