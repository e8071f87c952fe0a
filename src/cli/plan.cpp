#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "plan/memory_plan.hpp"
#include "tensor/runtime.hpp"
#include "train/step.hpp"

namespace mylos::cli {

int plan(const ConfigArguments& arguments, bool json) {
  const train::Config config = train::load_config(arguments.path, arguments.overrides);
  const Runtime runtime({.threads = int(config.train.threads)});  // workspaces depend on the device and the threads
  const plan::MemoryPlan p = train::plan_run(config);
  if (json)
    std::cout << plan::to_json(p).dump(2) << '\n';
  else
    std::cout << plan::to_text(p);
  return kDone;
}

}  // namespace mylos::cli
