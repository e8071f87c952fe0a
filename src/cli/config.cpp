#include <fmt/format.h>

#include <iostream>

#include "cli/commands.hpp"
#include "train/config.hpp"

namespace mylos::cli {
namespace {

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string markdown(const std::vector<ConfigSection>& sections) {
  std::string out =
      "# Configuration: every key\n\n"
      "A run is described by a TOML file. A key that is not given has its default; `include = \"other.toml\"` at the "
      "top reads\n"
      "another file first (relative to this one). On the command line `--section.key=value` wins over the file: the "
      "value is TOML, and a\n"
      "bare word is a text (`--train.storage=bf16`). Unknown keys, wrong types and values out of range are errors that "
      "name the key.\n"
      "`mylos config FILE` prints what a file comes to with all defaults; bundles keep the same text.\n\n"
      "This page is made by `mylos config --markdown`, and a test holds it up to date.\n";
  for (const ConfigSection& section : sections) {
    out += fmt::format("\n## [{}]: {}\n\n| key | type | default | values | meaning |\n|---|---|---|---|---|\n",
                       section.name, section.help);
    for (const ConfigKey& k : list_config({section}))
      out += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", k.key, k.type, cell(k.default_value), cell(k.bounds),
                         cell(k.help));
  }
  return out;
}

}  // namespace

int config(const ConfigArguments& arguments, ConfigFormat format) {
  if (format == ConfigFormat::toml) {
    std::cout << train::to_toml(train::load_config(arguments.path, arguments.overrides));
    return kDone;
  }
  train::Config defaults;
  const std::vector<ConfigSection> all = train::sections(defaults);
  if (format == ConfigFormat::markdown) {
    std::cout << markdown(all);
    return kDone;
  }
  for (const ConfigKey& k : list_config(all))
    std::cout << fmt::format("{}.{} = {}  # {}\n", k.section, k.key, k.default_value, k.help);
  return kDone;
}

}  // namespace mylos::cli
