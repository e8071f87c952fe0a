// Binds the tables of a TOML file to sections. For config.cpp; with it the only code that sees toml++.
#pragma once

#include <map>
#include <string>
#include <vector>

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "base/config.hpp"

namespace mylos {

// The text of overridden keys, by name: an override is a string when the key wants one.
using RawValues = std::map<std::string, std::string>;

// "file:line: ", or nothing when it stands in no file.
std::string place(const toml::node& node);

// Checks names, then reads every section.
void bind_all(const toml::table& tree, const RawValues& raw, const std::vector<ConfigSection>& sections);
// Reads every section; whatever else there is does not count.
void bind_known(const toml::table& tree, const RawValues& raw, const std::vector<ConfigSection>& sections);

}  // namespace mylos
