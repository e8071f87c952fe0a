#include "base/config_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/config_text.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos {

std::string place(const toml::node& node) {
  const auto& source = node.source();
  return source.path ? fmt::format("{}:{}: ", *source.path, source.begin.line) : std::string();
}

namespace {

std::string describe(const toml::node& node) {
  if (const auto* v = node.as_string()) return "the text " + toml_text(v->get());
  if (const auto* v = node.as_integer()) return fmt::format("the integer {}", v->get());
  if (const auto* v = node.as_floating_point()) return "the real number " + toml_real(v->get());
  if (const auto* v = node.as_boolean()) return fmt::format("the flag {}", v->get());
  if (node.is_array()) return "a list";
  if (node.is_table()) return "a table";
  return "a date or time";
}

// Without what is listed of its tables.
std::string own_key(const ConfigKey& key) { return key.key.substr(0, key.key.find_first_of(".[")); }

[[noreturn]] void fail_unknown_key(const toml::node& node, const std::string& section, const std::string& key,
                                   const std::vector<ConfigKey>& keys) {
  std::vector<std::string> here;
  std::string elsewhere;
  for (const ConfigKey& k : keys) {
    if (k.section == section && std::find(here.begin(), here.end(), own_key(k)) == here.end())
      here.push_back(own_key(k));
    if (k.section != section && k.key == key && elsewhere.empty()) elsewhere = k.section;
  }
  const std::string unknown = fmt::format("{}unknown key {}.{}", place(node), section, key);
  if (!elsewhere.empty()) fail("{}; did you mean {}.{}?", unknown, elsewhere, key);
  if (const std::string near = nearest_name(key, here); !near.empty())
    fail("{}; did you mean {}.{}?", unknown, section, near);
  fail("{}; [{}] has {}", unknown, section, join(here, ", "));
}

void check_known(const toml::node& node, const std::string& section, const std::string& key,
                 const std::vector<ConfigKey>& keys) {
  if (std::none_of(keys.begin(), keys.end(),
                   [&](const ConfigKey& k) { return k.section == section && own_key(k) == key; }))
    fail_unknown_key(node, section, key, keys);
}

bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
                              std::string_view::npos;
}

class Reader final : public ConfigBinder {
 public:
  Reader(std::string section, const toml::table* values, const RawValues& raw)
      : section_(std::move(section)), values_(values), raw_(raw) {}

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
    value = real_of(key, *node, low, high);
  }

  void reals(const char* key, std::vector<std::pair<std::string, double>>& value, double low, double high,
             const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    const toml::table* numbers = node->as_table();
    if (!numbers) wrong(key, *node, "a table of names and real numbers");
    value.clear();
    for (auto&& [name_, number] : *numbers) {
      const std::string name(name_.str());
      const std::string whole = fmt::format("{}.{}", key, name);
      check_name(whole, name, number);
      if (!number.is_number()) wrong(whole.c_str(), number, "a real number");
      value.emplace_back(name, real_of(whole.c_str(), number, low, high));
    }
  }

  void tables(const char* key, ConfigTables& value, const char*) override {
    const toml::node* node = find(key);
    if (!node) return;
    value.clear();
    if (value.named()) {
      if (!node->is_table()) wrong(key, *node, fmt::format("tables [{}.{}.NAME]", section_, key));
      for (auto&& [name_, table] : *node->as_table()) {
        const std::string name(name_.str());
        const std::string whole = fmt::format("{}.{}", key, name);
        if (!table.is_table()) wrong(whole.c_str(), table, fmt::format("a table [{}.{}]", section_, whole));
        check_name(whole, name, table);
        value.add(name);
        read_table(whole, *table.as_table(), value);
      }
      return;
    }
    const toml::array* list = node->as_array();
    if (!list) wrong(key, *node, fmt::format("a list of tables [[{}.{}]]", section_, key));
    for (const toml::node& table : *list) {
      const std::string whole = fmt::format("{}[{}]", key, value.size());
      if (!table.is_table()) wrong(whole.c_str(), table, "a table");
      value.add("");
      read_table(whole, *table.as_table(), value);
    }
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
        const std::string whole = fmt::format("{}[{}]", key, read.size());
        read.push_back(as_text(whole.c_str(), element, "a text in quotes"));
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
  double real_of(const char* key, const toml::node& node, double low, double high) const {
    const double v = node.is_integer() ? double(node.as_integer()->get()) : node.as_floating_point()->get();
    if (std::isnan(v))
      fail("{}{}.{} is not a number (nan); it must be in {} to {}", place(node), section_, key, low, high);
    if (v < low) fail("{}{}.{} is {}; it must be at least {}", place(node), section_, key, v, low);
    if (v > high) fail("{}{}.{} is {}; it must be at most {}", place(node), section_, key, v, high);
    return v;
  }

  void check_name(const std::string& whole, const std::string& name, const toml::node& node) const {
    if (!is_name(name))
      fail("{}{}.{}: '{}' is no name; names are letters, digits, _ and -", place(node), section_, whole, name);
  }

  // Into the table that was added last.
  void read_table(const std::string& key, const toml::table& from, ConfigTables& into) const {
    const std::string section = fmt::format("{}.{}", section_, key);
    const std::vector<ConfigKey> keys =
        list_config({{section.c_str(), "", [&](ConfigBinder& k) { into.bind_default(k); }}});
    for (auto&& [name, node] : from) check_known(node, section, std::string(name.str()), keys);
    Reader reader(section, &from, raw_);
    into.bind(into.size() - 1, reader);
  }

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

  std::string section_;
  const toml::table* values_;
  const RawValues& raw_;
};

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
    for (auto&& [key, value] : *values) check_known(value, name, std::string(key.str()), keys);
  }
}

}  // namespace

void bind_all(const toml::table& tree, const RawValues& raw, const std::vector<ConfigSection>& sections) {
  check_names(tree, sections);
  bind_known(tree, raw, sections);
}

void bind_known(const toml::table& tree, const RawValues& raw, const std::vector<ConfigSection>& sections) {
  for (const ConfigSection& section : sections) {
    Reader reader(section.name, tree[section.name].as_table(), raw);
    section.bind(reader);
  }
}

}  // namespace mylos
