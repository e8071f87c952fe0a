// The two uses of a bind() that only look at values: the list of keys, and the resolved configuration as TOML.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/config.hpp"
#include "base/config_text.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos {

void check_toml_keys(const std::string& text, const std::string& name) {
  constexpr int kMost = 1000;
  int dots = 0;
  for (const char c : text) {
    if (std::string_view("=,{}[]\n").find(c) != std::string_view::npos) dots = 0;
    if (c == '.') ++dots;
    check(dots <= kMost, "{}: a key with more than {} dots; keys are section.key", name, kMost);
  }
}

std::string toml_text(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out + '"';
}

std::string toml_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string out = fmt::format("{}", value);  // the shortest text that reads back to the same bits
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string toml_texts(const std::vector<std::string>& value) {
  std::vector<std::string> parts;
  for (const std::string& v : value) parts.push_back(toml_text(v));
  return fmt::format("[{}]", join(parts, ", "));
}

std::string toml_reals(const std::vector<std::pair<std::string, double>>& value) {
  std::vector<std::string> parts;
  for (const auto& [name, number] : value) parts.push_back(fmt::format("{} = {}", name, toml_real(number)));
  return fmt::format("{{{}}}", join(parts, ", "));
}

namespace {

// prefix: of the keys of a table.
class Lister : public ConfigBinder {
 public:
  Lister(const char* section, std::string prefix, std::vector<ConfigKey>& keys)
      : section_(section), prefix_(std::move(prefix)), keys_(keys) {}
  void integer(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high, const char* help) override {
    const bool open = high == std::numeric_limits<std::int64_t>::max();
    add(key, "integer", fmt::format("{}", value),
        open ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high), help);
  }
  void real(const char* key, double& value, double low, double high, const char* help) override {
    std::string bounds = fmt::format("{} to {}", low, high);
    if (std::isinf(high)) bounds = std::isinf(low) ? "any" : fmt::format("at least {}", low);
    add(key, "real", toml_real(value), bounds, help);
  }
  void flag(const char* key, bool& value, const char* help) override {
    add(key, "flag", value ? "true" : "false", "true or false", help);
  }
  void text(const char* key, std::string& value, const char* help) override {
    add(key, "text", toml_text(value), "", help);
  }
  void texts(const char* key, std::vector<std::string>& value, const char* help) override {
    add(key, "list of text", toml_texts(value), "", help);
  }
  void reals(const char* key, std::vector<std::pair<std::string, double>>& value, double low, double high,
             const char* help) override {
    add(key, "real of each name", toml_reals(value),
        std::isinf(high) ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high), help);
  }
  void tables(const char* key, ConfigTables& value, const char*) override {
    Lister inner(section_, fmt::format("{}{}{}.", prefix_, key, value.named() ? ".NAME" : "[]"), keys_);
    value.bind_default(inner);
  }
  void index_of(const char* key, int& value, const std::vector<const char*>& names, const char* help) override {
    std::vector<std::string> quoted;
    for (const char* name : names) quoted.push_back(toml_text(name));
    add(key, "choice", quoted.at(std::size_t(value)), join(quoted, ", "), help);
  }

 private:
  void add(const char* key, const char* type, std::string value, std::string bounds, const char* help) {
    keys_.push_back({section_, prefix_ + key, type, std::move(value), std::move(bounds), help});
  }

 protected:
  const char* section_;
  std::string prefix_;
  std::vector<ConfigKey>& keys_;
};

// The values as TOML: tables come after the plain keys of what they belong to.
class Writer final : public Lister {
 public:
  explicit Writer(std::string path) : Lister("", "", keys_of_this_), path_(std::move(path)) {}

  void tables(const char* key, ConfigTables& value, const char*) override {
    for (std::size_t i = 0; i < value.size(); ++i) {
      Writer inner(value.named() ? fmt::format("{}.{}.{}", path_, key, value.name(i))
                                 : fmt::format("{}.{}", path_, key));
      value.bind(i, inner);
      const std::string head = value.named() ? fmt::format("[{}]", inner.path_) : fmt::format("[[{}]]", inner.path_);
      tail_ += fmt::format("\n{}\n{}", head, inner.text());
    }
  }
  std::string text() const {
    std::string out;
    for (const ConfigKey& key : keys_of_this_) out += fmt::format("{} = {}\n", key.key, key.default_value);
    return out + tail_;
  }

 private:
  std::string path_, tail_;
  std::vector<ConfigKey> keys_of_this_;
};

}  // namespace

std::vector<ConfigKey> list_config(const std::vector<ConfigSection>& sections) {
  std::vector<ConfigKey> keys;
  for (const ConfigSection& section : sections) {
    Lister lister(section.name, "", keys);
    section.bind(lister);
  }
  return keys;
}

std::string write_config(const std::vector<ConfigSection>& sections) {
  std::string out;
  for (const ConfigSection& section : sections) {
    Writer writer(section.name);
    section.bind(writer);
    out += fmt::format("{}[{}]\n{}", out.empty() ? "" : "\n", section.name, writer.text());
  }
  return out;
}

}  // namespace mylos
