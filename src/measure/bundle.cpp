#include "measure/bundle.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos::measure {

using checkpoint::About;
using checkpoint::Writer;

const char* name_of(BundleKind kind) {
  switch (kind) {
    case BundleKind::train:
      return "train";
    case BundleKind::bench:
      return "bench";
    case BundleKind::campaign:
      return "campaign";
    case BundleKind::profile:
      return "profile";
    case BundleKind::plan:
      break;
  }
  return "plan";
}

Bundle::Bundle(std::string path, BundleKind kind) : path_(std::move(path)), kind_(kind), created_(utc_now()) {
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  if (parent.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(parent, failed);
  check(!failed, "cannot make the folder '{}' for the bundle: {}; choose another path", parent.string(),
        failed.message());
}

void Bundle::set(const Provenance& provenance) {
  provenance_ = provenance;
  has_provenance_ = true;
}

void Bundle::set(const Hardware& hardware) {
  hardware_ = hardware;
  has_hardware_ = true;
}

void Bundle::set_config(const std::string& resolved_toml) { config_ = resolved_toml; }

void Bundle::set_plan(const std::string& json, const std::vector<std::pair<std::string, std::int64_t>>& memory_rows) {
  plan_json_ = json;
  memory_rows_ = memory_rows;
  has_plan_ = true;
}

void Bundle::set_flop_ledger(const std::vector<model::OpCost>& ledger) { flop_ledger_ = ledger; }

int Bundle::add_table(const std::string& group, const std::string& name, const std::vector<Column>& columns) {
  check(group == "samples" || group == "telemetry", "a table belongs to 'samples' or 'telemetry', not to '{}'", group);
  check(!name.empty() && name.find('/') == name.npos && !columns.empty(), "'{}' cannot be a table of {} columns", name,
        columns.size());
  for (const Table& t : tables_)
    check(t.group != group || t.name != name, "the bundle already has a table /{}/{}", group, name);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Column& c = columns[i];
    check(!c.name.empty() && c.name.find('/') == c.name.npos && !c.units.empty() && !c.description.empty(),
          "column '{}' of table '{}' needs a name without '/', units and a description", c.name, name);
    for (std::size_t j = 0; j < i; ++j)
      check(columns[j].name != c.name, "table '{}' has column '{}' twice", name, c.name);
  }
  tables_.push_back({group, name, columns, std::vector<std::vector<double>>(columns.size())});
  return int(tables_.size()) - 1;
}

void Bundle::append(int table, std::span<const double> row) {
  Table& t = tables_.at(std::size_t(table));
  check(row.size() == t.columns.size(), "table '{}' has {} columns, the row {}", t.name, t.columns.size(), row.size());
  for (std::size_t i = 0; i < row.size(); ++i) t.values[i].push_back(row[i]);
}

std::optional<int> Bundle::find_table(const std::string& group, const std::string& name) const {
  for (std::size_t i = 0; i < tables_.size(); ++i)
    if (tables_[i].group == group && tables_[i].name == name) return int(i);
  return std::nullopt;
}

std::int64_t Bundle::rows(int table) const { return std::int64_t(tables_.at(std::size_t(table)).values[0].size()); }

std::span<const double> Bundle::column(int table, const std::string& name) const {
  const Table& t = tables_.at(std::size_t(table));
  for (std::size_t i = 0; i < t.columns.size(); ++i)
    if (t.columns[i].name == name) return t.values[i];
  fail("table '{}' has no column '{}'", t.name, name);
}

namespace {

void check_column(const std::string& path) {
  check(path.starts_with("/cases/") || path.starts_with("/derived/"),
        "a whole column belongs to /cases or /derived, not to '{}'", path);
}

}  // namespace

void Bundle::set_column(const std::string& path, std::vector<double> values, const About& about) {
  check_column(path);
  columns_[path] = {std::move(values), about};
}

void Bundle::set_column(const std::string& path, std::vector<std::string> values, const About& about) {
  check_column(path);
  columns_[path] = {std::move(values), about};
}

void Bundle::set_summary(const std::string& name, double value, const About& about) {
  scalars_["/summary/" + name] = {value, about};
}

void Bundle::set_derived(const std::string& name, double value, const About& about) {
  scalars_["/derived/" + name] = {value, about};
}

void Bundle::set_attribute(const std::string& group, const std::string& name, const checkpoint::AttributeValue& value) {
  check(!group.empty() && group[0] == '/', "'{}' must be the path of a group, like /summary", group);
  attributes_[group][name] = value;
}

void Bundle::remove_attribute(const std::string& group, const std::string& name) {
  const auto found = attributes_.find(group);
  if (found != attributes_.end()) found->second.erase(name);
}

namespace {

void write_provenance(Writer& w, const Provenance& p) {
  w.group("/provenance", {{"commit", p.commit},
                          {"dirty", p.dirty},
                          {"program", std::string("mylos ") + p.program_version},
                          {"compiler", p.compiler},
                          {"host", p.host},
                          {"operating_system", p.operating_system},
                          {"working_directory", p.working_directory},
                          {"call", p.call}});
  if (!p.user_note.empty()) w.text("/provenance/note", p.user_note, {"1", "what the user said about the run"});
  w.text("/provenance/diff", p.diff, {"1", "difference of the sources from the commit when the program was built"});
  w.text("/provenance/build_options", p.build_options, {"1", "how the program was compiled"});
  w.texts("/provenance/command_line", p.command_line, {"1", "program and arguments"});
  std::vector<std::string> names, versions;
  for (const auto& [name, version] : p.libraries) {
    names.push_back(name);
    versions.push_back(version);
  }
  w.texts("/provenance/libraries/name", names, {"1", "libraries of the program"});
  w.texts("/provenance/libraries/version", versions, {"1", "their versions, in the order of name"});
  names.clear();
  versions.clear();
  for (const auto& [name, value] : p.environment) {
    names.push_back(name);
    versions.push_back(value);
  }
  w.texts("/provenance/environment/name", names, {"1", "environment variables that change results or speed"});
  w.texts("/provenance/environment/value", versions, {"1", "their values, in the order of name"});
}

void write_hardware(Writer& w, const Hardware& h) {
  w.group("/hardware", {{"device", h.device_name},
                        {"backend", h.backend},
                        {"is_gpu", h.is_gpu},
                        {"devices", h.devices},
                        {"threads", std::int64_t(h.threads)},
                        {"cpu", h.cpu_name},
                        {"cpu_cores", h.cpu_cores}});
  if (!h.driver.empty()) w.attribute("/hardware", "driver", h.driver);
  for (const auto& [name, value] : h.more) w.attribute("/hardware", name, value);
  w.integer("/hardware/device_memory", h.device_memory_bytes, {"byte", "memory of one device"});
  w.integer("/hardware/host_memory", h.host_memory_bytes, {"byte", "memory of the host"});
}

void write_ledger(Writer& w, const std::vector<model::OpCost>& ledger) {
  std::vector<std::string> ops, phases, dtypes;
  std::vector<double> calls, flops, bytes;
  for (const model::OpCost& op : ledger) {
    ops.push_back(op.op);
    phases.emplace_back(name_of(op.phase));
    dtypes.emplace_back(mylos::name_of(op.dtype));
    calls.push_back(double(op.calls));
    flops.push_back(op.flops);
    bytes.push_back(op.bytes);
  }
  const std::string at = "/plan/flop_ledger/";
  w.texts(at + "op", ops, {"1", "op and what it is for"});
  w.texts(at + "phase", phases, {"1", "forward, backward, recompute or optimizer"});
  w.texts(at + "dtype", dtypes, {"1", "dtype of the operands"});
  w.reals(at + "calls", calls, {"1", "calls in one optimizer step"});
  w.reals(at + "flops", flops, {"FLOP", "floating-point operations of all calls, a multiply-add as two"});
  w.reals(at + "bytes", bytes, {"byte", "memory traffic of all calls when each operand moves once"});
}

}  // namespace

void Bundle::write(Writer& w, bool complete) const {
  w.attribute("/", "schema", std::string(kSchema));
  w.attribute("/", "schema_version", std::string(kSchemaVersion));
  w.attribute("/", "kind", std::string(name_of(kind_)));
  w.attribute("/", "created", created_);
  w.attribute("/", "published", utc_now());
  w.attribute("/", "complete", complete);
  for (const char* group :
       {"/provenance", "/hardware", "/config", "/plan", "/samples", "/telemetry", "/derived", "/summary"})
    w.group(group);
  if (has_provenance_) write_provenance(w, provenance_);
  if (has_hardware_) write_hardware(w, hardware_);
  w.text("/config/toml", config_, {"1", "resolved configuration, TOML"});
  if (has_plan_) {
    w.text("/plan/json", plan_json_, {"1", "memory plan, JSON"});
    std::vector<std::string> categories;
    std::vector<std::int64_t> bytes;
    for (const auto& [category, size] : memory_rows_) {
      categories.push_back(category);
      bytes.push_back(size);
    }
    w.texts("/plan/memory/category", categories, {"1", "what device memory is planned for"});
    w.dataset("/plan/memory/bytes", DType::i64, {std::int64_t(bytes.size())}, bytes.data(),
              {"byte", "planned bytes, in the order of category"});
  }
  if (!flop_ledger_.empty()) write_ledger(w, flop_ledger_);
  for (const Table& t : tables_) {
    for (std::size_t i = 0; i < t.columns.size(); ++i) {
      w.reals("/" + t.group + "/" + t.name + "/" + t.columns[i].name, t.values[i],
              {t.columns[i].units, t.columns[i].description});
    }
  }
  for (const auto& [path, column] : columns_) {
    if (const auto* reals = std::get_if<std::vector<double>>(&column.values))
      w.reals(path, *reals, column.about);
    else
      w.texts(path, std::get<std::vector<std::string>>(column.values), column.about);
  }
  for (const auto& [path, scalar] : scalars_) w.real(path, scalar.value, scalar.about);
  for (const auto& [group, values] : attributes_) w.group(group, values);
}

void Bundle::publish_as(bool complete) {
  check(!finished_, "bundle '{}' is finished; nothing can be added", path_);
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& hook : hooks_) hook(*this);
  Writer writer(path_);
  write(writer, complete);
  writer.commit();
  last_publish_ = std::chrono::steady_clock::now();
  last_publish_s_ = std::chrono::duration<double>(last_publish_ - begin).count();
  finished_ = complete;
}

void Bundle::publish() { publish_as(false); }

bool Bundle::maybe_publish() {
  const double wait_s = std::max(2.0, 50.0 * last_publish_s_);
  const auto now = std::chrono::steady_clock::now();
  if (last_publish_ != std::chrono::steady_clock::time_point{} &&
      std::chrono::duration<double>(now - last_publish_).count() < wait_s)
    return false;
  publish();
  return true;
}

void Bundle::finish() { publish_as(true); }

}  // namespace mylos::measure
