#include "data/corpus_manifest.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/build_info.hpp"
#include "base/error.hpp"
#include "data/file.hpp"
#include "data/json_error.hpp"

namespace mylos::data {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxManifestBytes = std::int64_t(1) << 30;
constexpr std::int64_t kMaxCount = std::int64_t(1) << 40;  // of a shard

Json options_of(const CorpusOptions& o) {
  return {{"tokenizer", o.tokenizer},
          {"jsonl_field", o.jsonl_field},
          {"validation_fraction", o.validation_fraction},
          {"shard_tokens", o.shard_tokens},
          {"skip_invalid", o.skip_invalid},
          {"allow_lossy", o.allow_lossy}};
}

Json counts_of(const Sidecar& s) {
  return {{"documents", s.documents}, {"tokens", s.tokens}, {"text_bytes", s.text_bytes}};
}

// As Json::at() and get(), with an Error that names the key.
const Json& at(const Json& object, const char* key) {
  check(object.contains(key), "its \"{}\" is missing", key);
  return object.at(key);
}

template <class T>
T get(const Json& object, const char* key) {
  const Json& value = at(object, key);
  try {
    return value.get<T>();
  } catch (const Json::type_error&) {
    fail("its \"{}\" is of another type than it has to be ({})", key, value.type_name());
  }
}

template <class T>
T get_or(const Json& object, const char* key, const T& otherwise) {
  return object.contains(key) ? get<T>(object, key) : otherwise;
}

Sidecar counts_from(const Json& json) {
  Sidecar s;
  s.documents = get<std::int64_t>(json, "documents");
  s.tokens = get<std::int64_t>(json, "tokens");
  s.text_bytes = get<std::int64_t>(json, "text_bytes");
  for (const std::int64_t count : {s.documents, s.tokens, s.text_bytes})
    if (count < 0 || count > kMaxCount) fail("a count of {} is not from 0 to 2^40", count);
  return s;
}

Json side_of(const ShardState& state, const char* stem) {
  Sidecar total;
  total.documents = total.tokens = total.text_bytes = 0;
  Json shards = Json::array();
  const auto add = [&](const Sidecar& s) {
    total.documents += s.documents;
    total.tokens += s.tokens;
    total.text_bytes += s.text_bytes;
  };
  for (const Sidecar& s : state.closed) {
    add(s);
    Json shard{{"file", shard_name(stem, shards.size())}};
    shard.update(counts_of(s));
    shard["sha256"] = s.sha256;
    shards.push_back(shard);
  }
  if (state.open) add(*state.open);
  Json side = counts_of(total);
  side["shards"] = shards;
  if (state.open) side["open"] = counts_of(*state.open);
  return side;
}

ShardState side_from(const Json& json, const CorpusManifest& about) {
  ShardState state;
  const auto fill = [&](Sidecar s) {
    s.vocab = about.vocab;
    s.dtype = about.vocab <= 1 << 16 ? DType::u16 : DType::u32;
    s.tokenizer = about.tokenizer;
    s.end_of_text = about.end_of_text;
    s.lossy = !about.lossy.empty();
    return s;
  };
  for (const Json& shard : at(json, "shards")) {
    state.closed.push_back(fill(counts_from(shard)));
    state.closed.back().sha256 = get<std::string>(shard, "sha256");
  }
  if (json.contains("open")) state.open = fill(counts_from(at(json, "open")));
  return state;
}

CorpusManifest parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) fail("it is {}", why_not_json(text));
  if (at(json, "format") != "mylos-corpus") fail("its \"format\" is not \"mylos-corpus\"");
  if (at(json, "version") != 1) fail("its version is not known to this build, which reads version 1");
  CorpusManifest m;
  m.complete = get<bool>(json, "complete");
  const Json& o = at(json, "options");
  m.options = {get<std::string>(o, "tokenizer"),      get<std::string>(o, "jsonl_field"),
               get<double>(o, "validation_fraction"), get<std::int64_t>(o, "shard_tokens"),
               get<bool>(o, "skip_invalid"),          get_or(o, "allow_lossy", false)};
  for (const Json& i : at(json, "inputs"))
    m.inputs.push_back(
        {get<std::string>(i, "path"), get<std::int64_t>(i, "bytes"), get<std::int64_t>(i, "modified_ns")});
  m.left_out = get<std::vector<std::string>>(json, "left_out");
  const Json& tokenizer = at(json, "tokenizer");
  m.tokenizer = get<std::string>(tokenizer, "name");
  if (m.tokenizer != "byte" && m.tokenizer != "tokenizer.json" && m.tokenizer != "tokenizer.model")
    fail("its tokenizer is '{}', none that `mylos tokenize` puts there", m.tokenizer);
  m.tokenizer_sha256 = get_or<std::string>(tokenizer, "sha256", "");
  m.lossy = get_or<std::string>(tokenizer, "lossy", "");
  m.vocab = get<std::int64_t>(tokenizer, "vocab");
  m.end_of_text = get<std::int64_t>(tokenizer, "end_of_text");
  m.train = side_from(at(json, "train"), m);
  m.validation = side_from(at(json, "validation"), m);
  if (!m.complete) {
    const Json& p = at(json, "position");
    m.position = {get<std::int64_t>(p, "file"), get<std::int64_t>(p, "offset"), get<std::int64_t>(p, "line"),
                  get<std::int64_t>(p, "document")};
    if (m.position.file < 0 || m.position.offset < 0) fail("its position is below 0");
  }
  return m;
}

}  // namespace

std::string manifest_path(const std::string& folder) { return (fs::path(folder) / "manifest.json").string(); }

std::optional<CorpusManifest> read_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::string text = read_file(path, kMaxManifestBytes);
  try {
    return parse(text);
  } catch (const Error& e) {
    fail("'{}' is no manifest of token shards: {}; bring back a sound copy, or tokenize into a new folder", path,
         e.what());
  }
}

void write_manifest(const std::string& folder, const CorpusManifest& m) {
  Json json;
  json["format"] = "mylos-corpus";
  json["version"] = 1;
  json["complete"] = m.complete;
  json["mylos"] = build_info().version;
  json["options"] = options_of(m.options);
  Json tokenizer{{"name", m.tokenizer}, {"vocab", m.vocab}, {"end_of_text", m.end_of_text}};
  if (!m.tokenizer_sha256.empty()) tokenizer["sha256"] = m.tokenizer_sha256;
  if (!m.lossy.empty()) tokenizer["lossy"] = m.lossy;
  json["tokenizer"] = tokenizer;
  json["train"] = side_of(m.train, "train");
  json["validation"] = side_of(m.validation, "validation");
  for (const char* count : {"documents", "tokens", "text_bytes"})
    json[count] = json["train"][count].get<std::int64_t>() + json["validation"][count].get<std::int64_t>();
  if (!m.complete)
    json["position"] = {{"file", m.position.file},
                        {"offset", m.position.offset},
                        {"line", m.position.line},
                        {"document", m.position.document}};
  json["inputs"] = Json::array();
  for (const InputFile& i : m.inputs)
    json["inputs"].push_back({{"path", i.path}, {"bytes", i.bytes}, {"modified_ns", i.modified_ns}});
  json["left_out"] = m.left_out;
  // Names of files are bytes; those that are no UTF-8 cannot stand in JSON as they are.
  write_file(manifest_path(folder), json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void check_same_run(const std::string& folder, const CorpusManifest& before, const CorpusManifest& now) {
  const Json old_options = options_of(before.options), new_options = options_of(now.options);
  const auto remedy = [&] {
    return fmt::format("'{}' holds an unfinished run; start it with the same arguments to go on, or remove the folder",
                       folder);
  };
  for (const auto& [key, value] : new_options.items())
    check(old_options.at(key) == value, "{} was {} and is now {}: {}", key, old_options.at(key).dump(), value.dump(),
          remedy());
  check(before.inputs.size() == now.inputs.size(), "the inputs were {} files and are now {}: {}", before.inputs.size(),
        now.inputs.size(), remedy());
  for (std::size_t i = 0; i < now.inputs.size(); ++i) {
    check(before.inputs[i].path == now.inputs[i].path, "input '{}' was '{}' before: {}", now.inputs[i].path,
          before.inputs[i].path, remedy());
    check(before.inputs[i] == now.inputs[i], "input '{}' was changed since: {}", now.inputs[i].path, remedy());
  }
}

}  // namespace mylos::data
