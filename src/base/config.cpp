// Reading: TOML files (with include), overrides, then the sections' bind(). The only file that sees toml++.
#include "base/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

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

toml::table read_tree(const std::filesystem::path& path, int depth) {
  check(depth < kMaxIncludeDepth, "'{}' is included {} files deep; does an include name a file that includes it?",
        path.string(), depth);
  toml::table own = parse(read_file(path), path.string());
  toml::node* include = own.get("include");
  if (!include) return own;
  check(include->is_string(), "{}:{}: include must be the name of a file, in quotes", path.string(),
        include->source().begin.line);
  const std::filesystem::path parent = path.parent_path() / include->as_string()->get();
  own.erase("include");
  toml::table all = read_tree(parent, depth + 1);
  merge(all, std::move(own));
  return all;
}

// What a section's bind() reads from. `raw` has the text of overridden keys: an override is a string when the key wants one.
using RawValues = std::map<std::string, std::string>;

std::string place(const toml::node& node) {
  const auto& source = node.source();
  return source.path ? fmt::format("{}:{}: ", *source.path, source.begin.line) : std::string();
}

std::string describe(const toml::node& node) {
  if (const auto* v = node.as_string()) return "the text " + toml_text(v->get());
  if (const auto* v = node.as_integer()) return fmt::format("the integer {}", v->get());
  if (const auto* v = node.as_floating_point()) return "the real number " + toml_real(v->get());
  if (const auto* v = node.as_boolean()) return fmt::format("the flag {}", v->get());
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  return "a date or time";
}

class Reader final : public ConfigBinder {
 public:
  Reader(const char* section, const toml::table* values, const RawValues& raw)
      : section_(section), values_(values), raw_(raw) {}

  void integer(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high, const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_integer()) wrong(key, *node, "an integer");
    const std::int64_t v = node->as_integer()->get();
    if (v < low) fail("{}{}.{} is {}; it must be at least {}", place(*node), section_, key, v, low);
    if (v > high) fail("{}{}.{} is {}; it must be at most {}", place(*node), section_, key, v, high);
    value = v;
  }

  void real(const char* key, double& value, double low, double high, const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_number()) wrong(key, *node, "a real number");
    const double v = node->is_integer() ? double(node->as_integer()->get()) : node->as_floating_point()->get();
    if (std::isnan(v))
      fail("{}{}.{} is not a number (nan); it must be in {} to {}", place(*node), section_, key, low, high);
    if (v < low) fail("{}{}.{} is {}; it must be at least {}", place(*node), section_, key, v, low);
    if (v > high) fail("{}{}.{} is {}; it must be at most {}", place(*node), section_, key, v, high);
    value = v;
  }

  void flag(const char* key, bool& value, const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    if (!node->is_boolean()) wrong(key, *node, "true or false");
    value = node->as_boolean()->get();
  }

  void text(const char* key, std::string& value, const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    value = as_text(key, *node, "a text in quotes");
  }

  void texts(const char* key, std::vector<std::string>& value, const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    std::vector<std::string> read;
    if (const toml::array* list = node->as_array()) {
      for (const toml::node& element : *list) {
        if (!element.is_string()) wrong(key, element, "a list of texts in quotes, and one element");
        read.push_back(element.as_string()->get());
      }
    } else {
      read.push_back(as_text(key, *node, "a list of texts in quotes"));
    }
    value = std::move(read);
  }

  void index_of(const char* key, int& value, const std::vector<const char*>& names, const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    const std::vector<std::string> known(names.begin(), names.end());
    const std::string v = as_text(key, *node, "one of " + join(known, ", "));
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i] != v) continue;
      value = int(i);
      return;
    }
    const std::string near = nearest_name(v, known);
    fail("{}{}.{} is '{}'; it must be one of {}{}", place(*node), section_, key, v, join(known, ", "),
         near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }

 private:
  const toml::node* find(const char* key) const { return values_ ? values_->get(key) : nullptr; }

  std::string as_text(const char* key, const toml::node& node, const std::string& wanted) const {
    const auto raw = raw_.find(fmt::format("{}.{}", section_, key));
    std::string v;
    if (const auto* string = node.as_string())
      v = string->get();
    else if (raw != raw_.end() && !node.is_array() && !node.is_table())
      v = raw->second;
    else
      wrong(key, node, wanted);
    check(v.find('\0') == std::string::npos, "{}{}.{} has a zero byte in its text", place(node), section_, key);
    return v;
  }

  [[noreturn]] void wrong(const char* key, const toml::node& node, const std::string& wanted) const {
    fail("{}{}.{} must be {}, but is {}", place(node), section_, key, wanted, describe(node));
  }

  const char* section_;
  const toml::table* values_;
  const RawValues& raw_;
};

// Bare words are strings; everything else is TOML.
void apply_override(toml::table& tree, RawValues& raw, const std::string& override_text) {
  const std::size_t equals = override_text.find('=');
  check(equals != std::string::npos, "'{}' is not an override; write section.key=value", override_text);
  const std::string name = override_text.substr(0, equals), value = override_text.substr(equals + 1);
  const std::size_t dot = name.find('.');
  check(dot != std::string::npos && dot > 0 && dot + 1 < name.size() && name.find('.', dot + 1) == std::string::npos,
        "'{}' in the override '{}' is not of the form section.key", name, override_text);
  check(is_utf8(override_text), "the override of {} is not UTF-8 text", name);
  check(!value.empty(), "the override '{}' has no value; write {}=\"\" for an empty text", override_text, name);
  const std::string section = name.substr(0, dot), key = name.substr(dot + 1);

  toml::table* table = nullptr;
  if (toml::node* existing = tree.get(section)) {
    table = existing->as_table();
    check(table != nullptr, "{}'{}' is a value, not a section, and so cannot take {}", place(*existing), section, name);
  } else {
    table = tree.insert(section, toml::table()).first->second.as_table();
  }
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

[[noreturn]] void fail_unknown_key(const toml::node& node, const std::string& section, const std::string& key,
                                   const std::vector<ConfigKey>& keys) {
  std::vector<std::string> here;
  std::string elsewhere;
  for (const ConfigKey& k : keys) {
    if (k.section == section) here.push_back(k.key);
    if (k.section != section && k.key == key && elsewhere.empty()) elsewhere = k.section;
  }
  const std::string unknown = fmt::format("{}unknown key {}.{}", place(node), section, key);
  if (!elsewhere.empty()) fail("{}; did you mean {}.{}?", unknown, elsewhere, key);
  if (const std::string near = nearest_name(key, here); !near.empty())
    fail("{}; did you mean {}.{}?", unknown, section, near);
  fail("{}; [{}] has {}", unknown, section, join(here, ", "));
}

void check_names(const toml::table& tree, const std::vector<ConfigSection>& sections) {
  const std::vector<ConfigKey> keys = list_config(sections);
  std::vector<std::string> names;
  for (const ConfigSection& s : sections) names.push_back(s.name);
  for (auto&& [name_, node] : tree) {
    const std::string name(name_.str());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::string owner;
      for (const ConfigKey& k : keys)
        if (k.key == name && owner.empty()) owner = k.section;
      if (!node.is_table()) {
        if (!owner.empty()) fail("{}'{}' stands outside a section; write it under [{}]", place(node), name, owner);
        fail("{}'{}' stands outside a section; only include may; the sections are {}", place(node), name,
             join(names, ", "));
      }
      const std::string near = nearest_name(name, names);
      if (!near.empty()) fail("{}unknown section [{}]; did you mean [{}]?", place(node), name, near);
      fail("{}unknown section [{}]; the sections are {}", place(node), name, join(names, ", "));
    }
    const toml::table* values = node.as_table();
    if (!values) fail("{}[{}] is a section, but is given as {}", place(node), name, describe(node));
    for (auto&& [key_, value] : *values) {
      const std::string key(key_.str());
      const bool known =
          std::any_of(keys.begin(), keys.end(), [&](const ConfigKey& k) { return k.section == name && k.key == key; });
      if (!known) fail_unknown_key(value, name, key, keys);
    }
  }
}

void bind_all(const toml::table& tree, const RawValues& raw, const std::vector<ConfigSection>& sections) {
  check_names(tree, sections);
  for (const ConfigSection& section : sections) {
    Reader reader(section.name, tree[section.name].as_table(), raw);
    section.bind(reader);
  }
}

}  // namespace

void read_config(const std::string& path, const std::vector<std::string>& overrides,
                 const std::vector<ConfigSection>& sections) {
  toml::table tree = path.empty() ? toml::table() : read_tree(path, 0);
  RawValues raw;
  for (const std::string& o : overrides) apply_override(tree, raw, o);
  bind_all(tree, raw, sections);
}

void read_config_text(const std::string& toml, const std::string& name, const std::vector<ConfigSection>& sections) {
  bind_all(parse(toml, name), {}, sections);
}

}  // namespace mylos
