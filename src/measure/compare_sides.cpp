#include "measure/compare_sides.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos::measure {

using checkpoint::Attributes;
using checkpoint::Reader;
using checkpoint::Trust;

namespace {

std::string text_of(const checkpoint::AttributeValue& value) {
  if (const auto* t = std::get_if<std::string>(&value)) return *t;
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{:.6g}", *d);
  return std::get<bool>(value) ? "true" : "false";
}

// Facts and where they are. `machine` ones make times incomparable when they differ, `build` ones are worth a word.
struct Fact {
  const char *name, *object, *attribute;
  enum { machine, build, shown } kind;
};
constexpr Fact kFacts[] = {
    {"created", "/", "created", Fact::shown},
    {"commit", "/provenance", "commit", Fact::shown},
    {"dirty", "/provenance", "dirty", Fact::shown},
    {"call", "/provenance", "call", Fact::shown},
    {"program", "/provenance", "program", Fact::build},
    {"compiler", "/provenance", "compiler", Fact::build},
    {"host", "/provenance", "host", Fact::machine},
    {"device", "/hardware", "device", Fact::machine},
    {"backend", "/hardware", "backend", Fact::machine},
    {"devices", "/hardware", "devices", Fact::machine},
    {"uuid", "/hardware", "uuid", Fact::machine},
    {"driver_version", "/hardware", "driver_version", Fact::machine},
    {"power_limit_w", "/hardware", "power_limit_w", Fact::machine},
    {"cpu", "/hardware", "cpu", Fact::machine},
    {"cpu_cores", "/hardware", "cpu_cores", Fact::machine},
    {"threads", "/hardware", "threads", Fact::machine},
};

std::map<std::string, std::string> facts_of(const Reader& file) {
  std::map<std::string, std::string> facts;
  for (const Fact& f : kFacts) {
    if (!file.has_group(f.object)) continue;
    const Attributes all = file.attributes(f.object);
    if (const auto found = all.find(f.attribute); found != all.end()) facts[f.name] = text_of(found->second);
  }
  if (file.has_dataset("/provenance/build_options")) facts["build_options"] = file.text("/provenance/build_options");
  const std::string at = "/provenance/environment/";
  if (file.has_dataset(at + "name") && file.has_dataset(at + "value")) {
    const std::vector<std::string> names = file.texts(at + "name"), values = file.texts(at + "value");
    std::string& text = facts["environment"];
    for (std::size_t i = 0; i < names.size() && i < values.size(); ++i)
      if (names[i] != "MYLOS_CALL") text += names[i] + "=" + values[i] + " ";
  }
  return facts;
}

std::string get(const Side& side, const char* name) {
  const auto found = side.facts.find(name);
  return found == side.facts.end() ? "" : found->second;
}

}  // namespace

std::vector<std::string> bundles_of(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().extension() == ".h5") files.push_back(entry->path().string());
  check(!failed, "cannot list the folder '{}': {}", path, failed.message());
  check(!files.empty(), "the folder '{}' has no bundle (*.h5) in it", path);
  std::sort(files.begin(), files.end());
  return files;
}

Side read_side(const std::string& path) {
  Side side;
  side.path = path;
  side.files = bundles_of(path);
  for (const std::string& name : side.files) {
    const Reader file(name, Trust::isolated);
    const Attributes root = file.attributes("/");
    const std::string kind = text_of(root.at("kind"));
    check(kind == "bench" || kind == "train",
          "'{}' {}, which cannot be compared; bundles of kind 'bench' and 'train' can", name,
          kind == "checkpoint" ? "holds weights" : fmt::format("is of kind '{}'", kind));
    check(side.kind.empty() || side.kind == kind, "'{}' is of kind '{}', others of the folder of kind '{}'", name, kind,
          side.kind);
    side.kind = kind;
    if (!std::get<bool>(root.at("complete")))
      side.warnings.push_back(fmt::format("'{}' is not complete: its run was stopped or still goes on", name));
    const std::map<std::string, std::string> facts = facts_of(file);
    if (side.facts.empty()) {
      side.facts = facts;
      if (const Attributes hardware = file.attributes("/hardware"); hardware.count("is_gpu"))
        side.is_gpu = text_of(hardware.at("is_gpu")) == "true";
      continue;
    }
    for (const auto& [fact, value] : facts)
      if (fact != "created" && side.facts[fact] != value)
        side.warnings.push_back(fmt::format(
            "'{}' differs in {} from '{}' of the same side: its rounds are not runs of one program on one machine",
            name, fact, side.files[0]));
  }
  return side;
}

std::vector<std::string> differences(const Side& a, const Side& b) {
  std::vector<std::string> found;
  const std::string call_a = get(a, "call"), call_b = get(b, "call");
  if (a.is_gpu || b.is_gpu) {
    if (call_a.empty() || call_b.empty())
      found.push_back(fmt::format(
          "CALL NOT KNOWN: {} does not say in which call it was measured (MYLOS_CALL). Speeds of different calls "
          "on GPUs must not be compared, and this may be such a comparison",
          call_a.empty() ? (call_b.empty() ? "neither side" : "A") : "B"));
    else if (call_a != call_b)
      found.push_back(fmt::format(
          "DIFFERENT CALLS: A was measured in call '{}', B in '{}'. Machines, heat and clocks differ between calls "
          "by more than most changes: these verdicts say nothing about the code",
          call_a, call_b));
  } else if (call_a != call_b) {
    found.push_back(
        fmt::format("A was measured in call '{}', B in '{}': load may differ; tools/compare measures both in turns",
                    call_a, call_b));
  }
  for (const Fact& f : kFacts) {
    const std::string value_a = get(a, f.name), value_b = get(b, f.name);
    if (f.kind == Fact::shown || value_a == value_b) continue;
    found.push_back(fmt::format("{} differs: '{}' in A, '{}' in B{}", f.name, value_a, value_b,
                                f.kind == Fact::machine ? " (another machine: times say little about the code)" : ""));
  }
  if (get(a, "build_options") != get(b, "build_options"))
    found.push_back("the builds' options differ (mylos inspect shows /provenance/build_options)");
  if (get(a, "environment") != get(b, "environment"))
    found.push_back(
        fmt::format("the environment differs: '{}' in A, '{}' in B", get(a, "environment"), get(b, "environment")));
  for (const Side* side : {&a, &b}) found.insert(found.end(), side->warnings.begin(), side->warnings.end());
  return found;
}

nlohmann::ordered_json to_json(const Side& side) {
  nlohmann::ordered_json j = {{"path", side.path}, {"rounds", side.files.size()}};
  for (const Fact& f : kFacts)
    if (const std::string value = get(side, f.name); !value.empty()) j[f.name] = value;
  return j;
}

}  // namespace mylos::measure
