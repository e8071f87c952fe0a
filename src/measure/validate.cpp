#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/isolate.hpp"
#include "checkpoint/store.hpp"
#include "measure/bench_record_file.hpp"
#include "measure/findings.hpp"
#include "measure/inspect.hpp"
#include "measure/kernel_trace_bundle.hpp"
#include "measure/validate_train.hpp"

namespace mylos::measure {

using checkpoint::Attributes;
using checkpoint::DatasetInfo;
using checkpoint::Reader;
using checkpoint::Trust;
using Json = nlohmann::json;

namespace {

enum class Want { text, integer, flag, group, dataset_text, dataset_texts, dataset_real, dataset_integer };

// Kinds that record a run: all but weights. A peer is another system's run (benchmarks/peers).
constexpr const char* kRuns = "train bench campaign profile plan peer";

// The schema as rules. `kinds` lists the kinds of file a rule is for ("*": all); `object` ends in ":name" for an
// attribute.
struct Rule {
  const char* kinds;
  const char* object;
  Want want;
};

constexpr Rule kRules[] = {
    {"*", "/:schema", Want::text},
    {"*", "/:schema_version", Want::text},
    {"*", "/:kind", Want::text},
    {"*", "/:created", Want::text},
    {"*", "/:complete", Want::flag},
    {"*", "/config", Want::group},
    {"*", "/config/toml", Want::dataset_text},
    {kRuns, "/provenance", Want::group},
    {kRuns, "/provenance:commit", Want::text},
    {kRuns, "/provenance:dirty", Want::flag},
    {kRuns, "/provenance:program", Want::text},
    {kRuns, "/provenance:compiler", Want::text},
    {kRuns, "/provenance:host", Want::text},
    {kRuns, "/provenance/diff", Want::dataset_text},
    {kRuns, "/provenance/build_options", Want::dataset_text},
    {kRuns, "/provenance/command_line", Want::dataset_texts},
    {kRuns, "/provenance/libraries/name", Want::dataset_texts},
    {kRuns, "/provenance/libraries/version", Want::dataset_texts},
    {kRuns, "/provenance/environment/name", Want::dataset_texts},
    {kRuns, "/provenance/environment/value", Want::dataset_texts},
    {kRuns, "/hardware", Want::group},
    {kRuns, "/hardware:device", Want::text},
    {kRuns, "/hardware:backend", Want::text},
    {kRuns, "/hardware:devices", Want::integer},
    {kRuns, "/hardware/device_memory", Want::dataset_integer},
    {kRuns, "/plan", Want::group},
    {kRuns, "/samples", Want::group},
    {kRuns, "/telemetry", Want::group},
    {kRuns, "/derived", Want::group},
    {kRuns, "/summary", Want::group},
    {"train peer", "/:status", Want::text},
    {"peer", "/:system", Want::text},
    {"peer", "/provenance:call", Want::text},
    {"train plan", "/plan/json", Want::dataset_text},
    {"train peer", "/samples/steps", Want::group},
    {"train", "/samples/evaluation", Want::group},
    {"train peer", "/summary:steady_window_rule", Want::text},
    {"bench", "/cases", Want::group},
    {"bench", "/samples/calls", Want::group},
    {"bench", "/samples:warm_up_rule", Want::text},
    {"bench", "/samples:stop_rule", Want::text},
    {"bench", "/samples:reject_rule", Want::text},
    {"bench", "/derived/cases", Want::group},
    {"bench", "/derived/rooflines", Want::group},
    {"checkpoint", "/weights", Want::group},
    {"checkpoint", "/:content", Want::text},
    {"checkpoint", "/:step", Want::integer},
};

constexpr const char* kKinds[] = {"train", "bench", "campaign", "profile", "plan", "peer", "checkpoint"};

bool applies(const Rule& rule, const std::string& kind) {
  const std::string all = std::string(" ") + rule.kinds + " ";
  return std::string(rule.kinds) == "*" || (!kind.empty() && all.find(" " + kind + " ") != std::string::npos);
}

class Check : Findings {
 public:
  explicit Check(const std::string& path) : file_(path, Trust::isolated) {}

  std::vector<Finding> run(const ConfigCheck& weights_config) {
    root();
    const std::string kind = text("/", "kind");
    for (const Rule& rule : kRules)
      if (applies(rule, kind)) required(rule);
    for (const std::string& name : file_.walk())
      if (file_.has_dataset(name)) guarded(name, [&] { dataset(name); });
    for (const char* group : {"/samples", "/telemetry", "/plan", "/provenance"})
      if (file_.has_group(group))
        for (const std::string& table : file_.groups(group))
          guarded(table, [&] { equal_lengths(std::string(group) + "/" + table); });
    for (const char* table :
         {"/cases", "/derived/cases", "/derived/rooflines", "/derived/kernels", "/derived/categories"})
      if (file_.has_group(table)) guarded(table, [&] { equal_lengths(table); });
    if (kind == "bench") add(bench_findings(file_));
    if (kind == "profile" && has_kernels(file_)) add(kernel_findings(file_));
    if (kind == "train" || kind == "peer")
      guarded("/samples/steps", [&] { add(train_findings(file_, kind, text("/", "status"))); });
    if (kind == "checkpoint" && weights_config && file_.has_dataset("/config/toml"))
      guarded("/config/toml", [&] { weights_config(file_.text("/config/toml")); });
    if (file_.has_dataset("/plan/json")) guarded("/plan/json", [&] { parsable("/plan/json"); });
    return std::move(list);
  }

 private:
  std::string text(const std::string& object, const char* name) {
    std::string value;
    guarded(object, [&] {
      const Attributes all = file_.attributes(object);
      const auto found = all.find(name);
      if (found == all.end()) return;
      if (const auto* t = std::get_if<std::string>(&found->second)) value = *t;
    });
    return value;
  }

  void root() {
    const std::string schema = text("/", "schema"), version = text("/", "schema_version"), kind = text("/", "kind");
    if (schema != "mylos-bundle")
      error("/:schema", fmt::format("is '{}', not 'mylos-bundle': mylos did not write this file", schema));
    if (version.rfind("1.", 0) != 0) error("/:schema_version", fmt::format("is '{}'; this program knows 1.x", version));
    if (std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds))
      error("/:kind", fmt::format("is '{}', which is no kind of bundle", kind));
    const std::string created = text("/", "created");
    if (created.size() != 20 || created[10] != 'T' || created.back() != 'Z')
      error("/:created", fmt::format("'{}' is not a UTC time like 2026-12-01T12:00:00Z", created));
    guarded("/", [&] {
      const Attributes all = file_.attributes("/");
      const auto complete = all.find("complete");
      if (complete == all.end() || !std::holds_alternative<bool>(complete->second)) return;  // the rules report it
      if (!std::get<bool>(complete->second))
        warning("/:complete", "is 0: the run was still going, was stopped or was killed; what is here is what it had");
    });
  }

  void required(const Rule& rule) {
    const std::string object = rule.object;
    const std::size_t colon = object.find(':');
    if (colon != std::string::npos) {
      const std::string owner = object.substr(0, colon), name = object.substr(colon + 1);
      if (!file_.has_group(owner)) return;  // the group's own rule reports it
      guarded(object, [&] {
        const Attributes all = file_.attributes(owner);
        const auto found = all.find(name);
        if (found == all.end()) return error(object, "attribute is missing");
        const bool ok = rule.want == Want::text      ? std::holds_alternative<std::string>(found->second)
                        : rule.want == Want::integer ? std::holds_alternative<std::int64_t>(found->second)
                                                     : std::holds_alternative<bool>(found->second);
        if (!ok) error(object, "attribute has the wrong type");
      });
      return;
    }
    if (rule.want == Want::group) {
      if (!file_.has_group(object)) error(object, "group is missing");
      return;
    }
    if (!file_.has_dataset(object)) return error(object, "dataset is missing");
    guarded(object, [&] {
      const DatasetInfo info = file_.info(object);
      const bool ok = rule.want == Want::dataset_text    ? info.is_text && info.shape.empty()
                      : rule.want == Want::dataset_texts ? info.is_text && info.shape.size() == 1
                      : rule.want == Want::dataset_real
                          ? !info.is_text && info.dtype == DType::f64 && info.shape.empty()
                          : !info.is_text && info.dtype == DType::i64 && info.shape.empty();
      if (!ok) error(object, "dataset has the wrong type or shape");
    });
  }

  void dataset(const std::string& name) {
    const DatasetInfo info = file_.info(name);
    for (const char* key : {"dtype", "units", "description", "sha256"})
      if (info.text(key).empty()) error(name + ":" + key, "every dataset needs this attribute, a text");
    if (!info.text("sha256").empty()) file_.verify(name);
    const bool in_tables = name.rfind("/samples/", 0) == 0 || name.rfind("/telemetry/", 0) == 0;
    if (in_tables && (info.is_text || info.dtype != DType::f64 || info.shape.size() != 1))
      error(name, "a series must be f64 with one dimension");
    if (info.is_text && info.bytes() <= (64 << 20))
      for (const std::string& value : file_.texts(name))
        if (!is_utf8(value)) error(name, "text is not UTF-8");
  }

  void equal_lengths(const std::string& table) {
    std::int64_t length = -1;
    std::string first;
    const auto names = file_.datasets(table);
    for (const std::string& name : names) {
      const DatasetInfo info = file_.info(table + "/" + name);
      if (info.shape.size() != 1) continue;
      if (length < 0) {
        length = info.shape[0];
        first = name;
      } else if (info.shape[0] != length) {
        error(table + "/" + name, fmt::format("has {} rows, '{}' of the same table {}", info.shape[0], first, length));
      }
    }
  }

  void parsable(const char* name) {
    if (!Json::accept(file_.text(name))) error(name, "text is not JSON");
  }

  Reader file_;
};

}  // namespace

std::vector<Finding> validate(const std::string& path, const ConfigCheck& weights_config) {
  try {
    const std::string answer = checkpoint::run_isolated(path, checkpoint::reading_limit_s(path), [&] {
      Json all = Json::array();
      for (const Finding& f : Check(path).run(weights_config))
        all.push_back({{"error", f.error}, {"where", f.where}, {"what", f.what}});
      return all.dump(-1, ' ', false, Json::error_handler_t::replace);
    });
    std::vector<Finding> findings;
    for (const Json& f : Json::parse(answer))
      findings.push_back({f["error"].get<bool>(), f["where"].get<std::string>(), f["what"].get<std::string>()});
    return findings;
  } catch (const Error& e) {
    return {{true, "/", e.what()}};
  }
}

}  // namespace mylos::measure
