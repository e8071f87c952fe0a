// A result bundle: one self-describing HDF5 file a run (docs/bundle.md has the schema).
//
// Everything is kept in memory and publish() writes the whole file through checkpoint::Writer (temporary name, fsync,
// rename): whenever the process dies, the last published file is complete in itself and readable by anything that reads
// HDF5, with the root attribute complete=0. finish() publishes a last time with complete=1. maybe_publish() is called
// once a step: it publishes when 2 s and 50 times the last write's duration have passed, so writing takes at most 2 %
// of the time. Times are wall time; created is UTC.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "checkpoint/store.hpp"
#include "measure/provenance.hpp"
#include "model/flops.hpp"

namespace mylos::measure {

inline constexpr const char* kSchema = "mylos-bundle";
inline constexpr const char* kSchemaVersion = "1.0.0";

enum class BundleKind { train, bench, campaign, profile, plan };
const char* name_of(BundleKind kind);

struct Column {
  std::string name, units, description;
};

class Bundle {
 public:
  Bundle(std::string path, BundleKind kind);  // makes the folder of `path`; writes nothing yet

  const std::string& path() const { return path_; }
  BundleKind kind() const { return kind_; }

  void set(const Provenance& provenance);
  void set(const Hardware& hardware);
  void set_config(const std::string& resolved_toml);
  // The memory plan: JSON as `mylos plan --json` prints it, and its rows (category, bytes).
  void set_plan(const std::string& json, const std::vector<std::pair<std::string, std::int64_t>>& memory_rows);
  // What one step computes and moves, op by op (model::step_ledger).
  void set_flop_ledger(const std::vector<model::OpCost>& ledger);
  const std::vector<model::OpCost>& flop_ledger() const { return flop_ledger_; }

  // A table of series with equal lengths: row i of each column belongs together. `group` is "samples" or "telemetry".
  // Returns what append() takes. Datasets are /<group>/<name>/<column>, f64 (integers are exact to 2^53).
  int add_table(const std::string& group, const std::string& name, const std::vector<Column>& columns);
  void append(int table, std::span<const double> row);
  void append(int table, std::initializer_list<double> row) {
    append(table, std::span<const double>(row.begin(), row.size()));
  }
  std::optional<int> find_table(const std::string& group, const std::string& name) const;
  std::int64_t rows(int table) const;
  std::span<const double> column(int table, const std::string& name) const;

  // A column as a whole, row by row beside the others of its folder, under /cases or /derived: setting it again replaces it.
  void set_column(const std::string& path, std::vector<double> values, const checkpoint::About& about);
  void set_column(const std::string& path, std::vector<std::string> values, const checkpoint::About& about);

  // One number under /summary or /derived; setting it again replaces it.
  void set_summary(const std::string& name, double value, const checkpoint::About& about);
  void set_derived(const std::string& name, double value, const checkpoint::About& about);
  // A text or number as an attribute of a group ("/" too): status, notes, caveats.
  void set_attribute(const std::string& group, const std::string& name, const checkpoint::AttributeValue& value);
  void remove_attribute(const std::string& group, const std::string& name);

  // Called at the start of each publish, to bring summaries up to date.
  void before_publish(std::function<void(Bundle&)> hook) { hooks_.push_back(std::move(hook)); }
  void publish();
  bool maybe_publish();  // true when it published
  void finish();
  double last_publish_s() const { return last_publish_s_; }

 private:
  struct Scalar {
    double value;
    checkpoint::About about;
  };
  struct Table {
    std::string group, name;
    std::vector<Column> columns;
    std::vector<std::vector<double>> values;
  };
  struct WholeColumn {
    std::variant<std::vector<double>, std::vector<std::string>> values;
    checkpoint::About about;
  };
  void write(checkpoint::Writer& writer, bool complete) const;
  void publish_as(bool complete);

  std::string path_;
  BundleKind kind_;
  std::string created_;
  bool finished_ = false;
  Provenance provenance_;
  Hardware hardware_;
  bool has_provenance_ = false, has_hardware_ = false, has_plan_ = false;
  std::string config_, plan_json_;
  std::vector<std::pair<std::string, std::int64_t>> memory_rows_;
  std::vector<model::OpCost> flop_ledger_;
  std::vector<Table> tables_;
  std::map<std::string, Scalar> scalars_;  // by path
  std::map<std::string, WholeColumn> columns_;
  std::map<std::string, checkpoint::Attributes> attributes_;
  std::vector<std::function<void(Bundle&)>> hooks_;
  std::chrono::steady_clock::time_point last_publish_{};
  double last_publish_s_ = 0;
};

}  // namespace mylos::measure
