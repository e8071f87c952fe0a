#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "plan/memory_plan.hpp"
#include "train/step.hpp"

namespace mylos::cli {

int plan(const ConfigArguments& arguments, bool json) {
  const plan::MemoryPlan p = train::plan_run(train::load_config(arguments.path, arguments.overrides));
  if (json)
    std::cout << plan::to_json(p).dump(2) << '\n';
  else
    std::cout << plan::to_text(p);
  return kDone;
}

}  // namespace mylos::cli
