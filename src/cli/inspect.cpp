#include "measure/inspect.hpp"

#include <iostream>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "train/config.hpp"

namespace mylos::cli {

int inspect(const std::string& file, bool json) {
  std::cout << (json ? measure::inspect_json(file) : measure::inspect_text(file)) << '\n';
  return kDone;
}

int validate(const std::vector<std::string>& files) {
  const auto check_config = [](const std::string& toml) { train::parse_config(toml, "its configuration"); };
  bool sound = true;
  for (const std::string& file : files) {
    const std::string name = printable(file);
    bool errors = false;
    for (const measure::Finding& f : measure::validate(file, check_config)) {
      std::cout << name << ": " << (f.error ? "error" : "warning") << ": " << printable(f.where) << ": "
                << printable(f.what) << '\n';
      errors |= f.error;
    }
    if (!errors) std::cout << name << ": valid\n";
    sound &= !errors;
  }
  return sound ? kDone : kFailed;
}

}  // namespace mylos::cli
