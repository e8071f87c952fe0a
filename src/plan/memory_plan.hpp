// What a run will hold in device memory, known before it: the constructors of model, optimizer and step run on a
// measuring Arena, and the table is that arena's. A run lays out its memory with the same code, so plan and peak agree.
// Ops say how much workspace they want on this device, so a Runtime must be alive.
//
//   MemoryPlan p = plan_memory(model, execution, [&](Arena& arena, const model::Transformer& t) { ... optimizer, step
//   ... }); std::cout << to_text(p);  check_fits(p, device_info().memory_bytes);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/flops.hpp"
#include "model/transformer.hpp"

namespace mylos::plan {

struct MemoryPlan {
  model::ModelConfig model;  // resolved
  model::ExecutionConfig execution;
  std::map<std::string, std::int64_t> categories;  // bytes by category; they add up to total_bytes
  std::int64_t total_bytes = 0;
  std::int64_t parameters = 0;            // all
  std::int64_t embedding_parameters = 0;  // of them in the input embedding (0 when tied)
  std::int64_t product_parameters = 0;    // P': in matrix products
  model::ModelFlops flops_per_token{};
};

// Lays out what stands beside the model in the same arena (optimizer state, batches).
using LayOutMore = std::function<void(Arena&, const model::Transformer&)>;

MemoryPlan plan_memory(const model::ModelConfig& model, const model::ExecutionConfig& execution,
                       const LayOutMore& more = {});

std::string to_text(const MemoryPlan& plan);
nlohmann::ordered_json to_json(const MemoryPlan& plan);

// Throws Error when the plan needs more than `available_bytes`; the message says which changes would fit.
void check_fits(const MemoryPlan& plan, std::int64_t available_bytes);

}  // namespace mylos::plan
