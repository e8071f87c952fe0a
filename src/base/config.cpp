// Reading: TOML files (with include), then overrides; config_reader.cpp binds the result.
#include "base/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/config_reader.hpp"
#include "base/config_text.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos {
namespace {

constexpr int kMaxIncludeDepth = 16;
constexpr std::uintmax_t kMaxFileBytes = 16 << 20;

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  check(std::filesystem::exists(path, error), "configuration file '{}' does not exist", path.string());
  check(std::filesystem::is_regular_file(path, error), "configuration '{}' is not a file", path.string());
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  check(!error && bytes <= kMaxFileBytes, "configuration file '{}' has {} bytes; at most {} are read", path.string(),
        bytes, kMaxFileBytes);
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  check(in.good(), "cannot read the configuration file '{}'", path.string());
  return text.str();
}

toml::table parse(const std::string& text, const std::string& name) {
  check_toml_keys(text, name);
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    fail("{}:{}:{}: {}", name, e.source().begin.line, e.source().begin.column, e.description());
  }
}

// Values of `over` replace those of `base`, section by section.
void merge(toml::table& base, toml::table&& over) {
  for (auto&& [key, node] : over) {
    toml::table* existing = base[key].as_table();
    if (existing && node.is_table()) {
      merge(*existing, std::move(*node.as_table()));
    } else {
      base.insert_or_assign(key, std::move(node));
    }
  }
}

// Adds the names of what it reads to `files`.
toml::table read_tree(const std::filesystem::path& path, int depth, std::vector<std::string>& files) {
  check(depth < kMaxIncludeDepth, "'{}' is included {} files deep; does an include name a file that includes it?",
        path.string(), depth);
  toml::table own = parse(read_file(path), path.string());
  files.push_back(path.string());
  toml::node* include = own.get("include");
  if (!include) return own;
  check(include->is_string(), "{}:{}: include must be the name of a file, in quotes", path.string(),
        include->source().begin.line);
  const std::filesystem::path parent = path.parent_path() / include->as_string()->get();
  own.erase("include");
  toml::table all = read_tree(parent, depth + 1, files);
  merge(all, std::move(own));
  return all;
}

// Whether section.key holds named tables, into which an override may reach.
bool holds_tables(const std::string& section, const std::string& key, const std::vector<ConfigSection>& sections) {
  const std::vector<ConfigKey> keys = list_config(sections);
  return std::any_of(keys.begin(), keys.end(),
                     [&](const ConfigKey& k) { return k.section == section && k.key.starts_with(key + ".NAME."); });
}

// Bare words are strings; everything else is TOML.
void apply_override(toml::table& tree, RawValues& raw, const std::string& override_text,
                    const std::vector<ConfigSection>& sections) {
  const std::size_t equals = override_text.find('=');
  check(equals != std::string::npos, "'{}' is not an override; write section.key=value", override_text);
  const std::string name = override_text.substr(0, equals), value = override_text.substr(equals + 1);
  std::vector<std::string> path;  // section, key, and for a table its name and key
  for (std::size_t begin = 0, dot; begin <= name.size(); begin = dot + 1) {
    dot = std::min(name.find('.', begin), name.size());
    path.push_back(name.substr(begin, dot - begin));
  }
  check(std::none_of(path.begin(), path.end(), [](const std::string& part) { return part.empty(); }) &&
            (path.size() == 2 || (path.size() == 4 && holds_tables(path[0], path[1], sections))),
        "'{}' in the override '{}' is not of the form section.key", name, override_text);
  check(is_utf8(override_text), "the override of {} is not UTF-8 text", name);
  check(!value.empty(), "the override '{}' has no value; write {}=\"\" for an empty text", override_text, name);

  toml::table* table = &tree;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    if (toml::node* existing = table->get(path[i])) {
      table = existing->as_table();
      check(table != nullptr, "{}'{}' is a value, not a section, and so cannot take {}", place(*existing), path[i],
            name);
    } else {
      table = table->insert(path[i], toml::table()).first->second.as_table();
    }
  }
  const std::string& key = path.back();
  raw[name] = value;
  bool parsed = false;
  if (value.find_first_of("\n\r#") == std::string::npos) {
    check_toml_keys(value, name);
    try {
      toml::table one = toml::parse("value = " + value);
      table->insert_or_assign(key, std::move(*one.get("value")));
      parsed = true;
    } catch (const toml::parse_error&) {
      // Only what cannot be meant as a word is an error: a list or a quotation that does not end.
      check(value.find_first_of("[]{}\"'") == std::string::npos, "the value in the override '{}' is not valid TOML",
            override_text);
    }
  }
  if (!parsed) table->insert_or_assign(key, value);
}

}  // namespace

std::vector<std::string> read_config(const std::string& path, const std::vector<std::string>& overrides,
                                     const std::vector<ConfigSection>& sections) {
  std::vector<std::string> files;
  toml::table tree = path.empty() ? toml::table() : read_tree(path, 0, files);
  RawValues raw;
  for (const std::string& o : overrides) apply_override(tree, raw, o, sections);
  bind_all(tree, raw, sections);
  return files;
}

void read_config_text(const std::string& toml, const std::string& name, const std::vector<ConfigSection>& sections) {
  bind_all(parse(toml, name), {}, sections);
}

void read_config_parts(const std::string& toml, const std::string& name, const std::vector<ConfigSection>& sections) {
  bind_known(parse(toml, name), {}, sections);
}

}  // namespace mylos
