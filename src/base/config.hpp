// Configuration: TOML file, then `--section.key=value` overrides, bound to plain structs.
//
// Each layer declares its keys once, in a bind() beside its struct:
//
//   void bind(ConfigBinder& keys, ModelConfig& c) {
//     keys.integer("dim", c.dim, 1, 1 << 20, "model width D");
//   }
//
// The same declaration reads values (with defaults from the struct), writes the resolved TOML into bundles, and lists every
// key with its default and meaning for `mylos config` and docs/configuration.md. Unknown sections and keys, wrong types and
// values out of range throw Error that names section.key, the value, the bounds and the nearest known key.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mylos {

class ConfigBinder {
 public:
  virtual ~ConfigBinder() = default;
  virtual void integer(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high, const char* help) = 0;
  virtual void real(const char* key, double& value, double low, double high, const char* help) = 0;
  virtual void flag(const char* key, bool& value, const char* help) = 0;
  virtual void text(const char* key, std::string& value, const char* help) = 0;
  virtual void texts(const char* key, std::vector<std::string>& value, const char* help) = 0;
  // One of `names`; value is the index.
  virtual void index_of(const char* key, int& value, const std::vector<const char*>& names, const char* help) = 0;

  // An enum whose values 0, 1, ... are called `names`.
  template <class E>
  void choice(const char* key, E& value, const std::vector<const char*>& names, const char* help) {
    int i = static_cast<int>(value);
    index_of(key, i, names, help);
    value = static_cast<E>(i);
  }
};

// A section of the file: its name, one line about it, and what binds its keys.
struct ConfigSection {
  const char* name;
  const char* help;
  std::function<void(ConfigBinder&)> bind;
};

// Reads `path` (may be empty: defaults only), applies overrides ("section.key=value", value in TOML syntax; a bare word is
// taken as a string), binds all sections. A key `include = "file.toml"` at the top is read first (relative to the file).
void read_config(const std::string& path, const std::vector<std::string>& overrides,
                 const std::vector<ConfigSection>& sections);

// The same from text without include, as bundles keep it; `name` stands in messages.
void read_config_text(const std::string& toml, const std::string& name, const std::vector<ConfigSection>& sections);

// The resolved configuration as TOML: every key of every section; reading it back gives the same values to the bit.
std::string write_config(const std::vector<ConfigSection>& sections);

// Every key for documentation.
struct ConfigKey {
  std::string section, key, type, default_value, bounds, help;
};
std::vector<ConfigKey> list_config(const std::vector<ConfigSection>& sections);

}  // namespace mylos
