#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "plan/memory_plan.hpp"
#include "tensor/runtime.hpp"
#include "train/step.hpp"

namespace mylos::cli {

int plan(const ConfigArguments& arguments, bool json) {
  train::Config config = train::load_config(arguments.path, arguments.overrides);
  const Runtime runtime({.threads = int(config.train.threads)});  // workspaces depend on the device and the threads
  config = train::with_recompute(config, device_info().memory_bytes);
  const plan::MemoryPlan p = train::plan_run(config);
  if (json)
    std::cout << plan::to_json(p).dump(2) << '\n';
  else
    std::cout << plan::to_text(p);
  return kDone;
}

}  // namespace mylos::cli
