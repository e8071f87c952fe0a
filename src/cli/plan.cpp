#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "plan/memory_plan.hpp"
#include "tensor/runtime.hpp"
#include "train/step.hpp"

namespace mylos::cli {

int plan(const ConfigArguments& arguments, bool json) {
  train::Config config = train::load_config(arguments.path, arguments.overrides);
  const Runtime runtime({.threads = int(config.train.threads)});  // workspaces depend on the device and the threads
  const bool chosen = config.train.recompute == model::Recompute::automatic;
  const std::int64_t memory = train::memory_for_run();
  config = train::with_recompute(config, memory);
  const plan::MemoryPlan p = train::plan_run(config);
  if (json)
    std::cout << plan::to_json(p).dump(2) << '\n';
  else
    std::cout << plan::to_text(p);
  if (chosen)
    std::cerr << fmt::format("recompute \"auto\" was chosen for the {} of {} that are free here{}\n",
                             format_bytes(memory), device_info().name,
                             p.total_bytes > memory ? ", and even full recomputation does not fit" : "");
  return kDone;
}

}  // namespace mylos::cli
