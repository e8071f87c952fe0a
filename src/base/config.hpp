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

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mylos {

class ConfigBinder;

// The bind() beside T, from within a class that has a bind of its own.
template <class T>
void bind_keys(ConfigBinder& keys, T& value) {
  bind(keys, value);
}

// Tables of one kind under a key, for binders: [section.key.NAME] each with a name of its own, or a list [[section.key]].
class ConfigTables {
 public:
  virtual ~ConfigTables() = default;
  virtual bool named() const = 0;
  virtual std::size_t size() const = 0;
  virtual std::string name(std::size_t i) const = 0;  // empty in a list
  virtual void bind(std::size_t i, ConfigBinder& keys) = 0;
  virtual void bind_default(ConfigBinder& keys) = 0;  // those of a new table
  virtual void clear() = 0;
  virtual void add(const std::string& name) = 0;
};

class ConfigBinder {
 public:
  virtual ~ConfigBinder() = default;
  virtual void integer(const char* key, std::int64_t& value, std::int64_t low, std::int64_t high, const char* help) = 0;
  virtual void real(const char* key, double& value, double low, double high, const char* help) = 0;
  virtual void flag(const char* key, bool& value, const char* help) = 0;
  virtual void text(const char* key, std::string& value, const char* help) = 0;
  virtual void texts(const char* key, std::vector<std::string>& value, const char* help) = 0;
  // key = {name = 1.0, ...}, sorted by name.
  virtual void reals(const char* key, std::vector<std::pair<std::string, double>>& value, double low, double high,
                     const char* help) = 0;
  virtual void tables(const char* key, ConfigTables& value, const char* help) = 0;
  // One of `names`; value is the index.
  virtual void index_of(const char* key, int& value, const std::vector<const char*>& names, const char* help) = 0;

  // An enum whose values 0, 1, ... are called `names`.
  template <class E>
  void choice(const char* key, E& value, const std::vector<const char*>& names, const char* help) {
    int i = static_cast<int>(value);
    index_of(key, i, names, help);
    value = static_cast<E>(i);
  }
  // [section.key.NAME]: a T for each name, sorted by it; bind(keys, t) beside T declares its keys. Names are letters,
  // digits, _ and -.
  template <class T>
  void named(const char* key, std::vector<std::pair<std::string, T>>& value, const char* help);
  // [[section.key]]: a T each, in the order of the file.
  template <class T>
  void list(const char* key, std::vector<T>& value, const char* help);
};

template <class T>
void ConfigBinder::named(const char* key, std::vector<std::pair<std::string, T>>& value, const char* help) {
  struct Tables final : ConfigTables {
    std::vector<std::pair<std::string, T>>& v;
    explicit Tables(std::vector<std::pair<std::string, T>>& v_) : v(v_) {}
    bool named() const override { return true; }
    std::size_t size() const override { return v.size(); }
    std::string name(std::size_t i) const override { return v[i].first; }
    void bind(std::size_t i, ConfigBinder& keys) override { bind_keys(keys, v[i].second); }
    void bind_default(ConfigBinder& keys) override {
      T t;
      bind_keys(keys, t);
    }
    void clear() override { v.clear(); }
    void add(const std::string& name) override { v.emplace_back(name, T{}); }
  } all(value);
  tables(key, all, help);
}

template <class T>
void ConfigBinder::list(const char* key, std::vector<T>& value, const char* help) {
  struct Tables final : ConfigTables {
    std::vector<T>& v;
    explicit Tables(std::vector<T>& v_) : v(v_) {}
    bool named() const override { return false; }
    std::size_t size() const override { return v.size(); }
    std::string name(std::size_t) const override { return ""; }
    void bind(std::size_t i, ConfigBinder& keys) override { bind_keys(keys, v[i]); }
    void bind_default(ConfigBinder& keys) override {
      T t;
      bind_keys(keys, t);
    }
    void clear() override { v.clear(); }
    void add(const std::string&) override { v.emplace_back(); }
  } all(value);
  tables(key, all, help);
}

// A section of the file: its name, one line about it, and what binds its keys.
struct ConfigSection {
  const char* name;
  const char* help;
  std::function<void(ConfigBinder&)> bind;
};

// Reads `path` (may be empty: defaults only), applies overrides ("section.key=value", or "section.key.NAME.key=value" of a
// named table; value in TOML syntax, a bare word is taken as a string), binds all sections. A key `include = "file.toml"` at the top is read first (relative to the file).
// Returns the names of the files that were read.
std::vector<std::string> read_config(const std::string& path, const std::vector<std::string>& overrides,
                                     const std::vector<ConfigSection>& sections);

// The same from text without include, as bundles keep it; `name` stands in messages.
void read_config_text(const std::string& toml, const std::string& name, const std::vector<ConfigSection>& sections);

// Some keys of such a text, for a reader that needs no others: sections and keys that nothing binds do not count.
void read_config_parts(const std::string& toml, const std::string& name, const std::vector<ConfigSection>& sections);

// The resolved configuration as TOML: every key of every section; reading it back gives the same values to the bit.
std::string write_config(const std::vector<ConfigSection>& sections);

// Every key for documentation; those of a named table as key.NAME.key, of a list as key[].key.
struct ConfigKey {
  std::string section, key, type, default_value, bounds, help;
};
std::vector<ConfigKey> list_config(const std::vector<ConfigSection>& sections);

}  // namespace mylos
