#include "data/sidecar.hpp"

#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "data/file.hpp"

namespace mylos::data {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxSidecarBytes = 1 << 20;
constexpr std::int64_t kMaxVocab = std::int64_t(1) << 31;  // batches hold tokens as i32

std::int64_t count_of(const Json& object, const char* key, std::int64_t high, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end()) return -1;
  check(found->is_number_integer(), "{}: \"{}\" is not a whole number", name, key);
  const bool fits = found->is_number_unsigned() ? found->get<std::uint64_t>() <= std::uint64_t(high)
                                                : found->get<std::int64_t>() >= 0 && found->get<std::int64_t>() <= high;
  check(fits, "{}: \"{}\" is {}; it must be from 0 to {}", name, key, found->dump(), high);
  return found->get<std::int64_t>();
}

std::string text_of(const Json& object, const char* key, const std::string& name) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  check(found->is_string(), "{}: \"{}\" is not a string", name, key);
  return found->get<std::string>();
}

constexpr std::array<std::string_view, 4> kContainers = {"raw", "npy", "llmc", "megatron"};

}  // namespace

std::string_view name_of(Container container) { return kContainers[std::size_t(container)]; }

Container container_named(std::string_view name) {
  for (std::size_t i = 0; i < kContainers.size(); ++i)
    if (kContainers[i] == name) return Container(i);
  fail("'{}' is no format of token files; they are {}", name, fmt::join(kContainers, ", "));
}

Sidecar parse_sidecar(std::string_view json, const std::string& name) {
  const Json object = Json::parse(json, nullptr, false);
  check(!object.is_discarded(), "{}: not JSON", name);
  check(object.is_object(), "{}: not a JSON object", name);
  const std::string format = text_of(object, "format", name);
  check(format.empty() || format == "mylos-tokens", "{}: \"format\" is \"{}\", expected \"mylos-tokens\"", name,
        format);
  const std::int64_t version = count_of(object, "version", std::numeric_limits<std::int32_t>::max(), name);
  check(version == -1 || version == 1, "{}: version {} is not known to this build, which reads version 1", name,
        version);

  Sidecar s;
  const std::string dtype = text_of(object, "dtype", name);
  check(!dtype.empty(), "{}: \"dtype\" is missing; it must be \"u16\" or \"u32\"", name);
  check(dtype == "u16" || dtype == "u32", "{}: \"dtype\" is \"{}\"; it must be \"u16\" or \"u32\"", name, dtype);
  s.dtype = dtype == "u16" ? DType::u16 : DType::u32;
  constexpr std::int64_t kAny = std::int64_t(1) << 62;
  s.tokens = count_of(object, "tokens", kAny, name);
  s.vocab = count_of(object, "vocab", kMaxVocab, name);
  s.tokenizer = text_of(object, "tokenizer", name);
  s.end_of_text = count_of(object, "end_of_text", kMaxVocab - 1, name);
  s.documents = count_of(object, "documents", kAny, name);
  s.text_bytes = count_of(object, "text_bytes", kAny, name);
  s.sha256 = text_of(object, "sha256", name);
  if (const auto lossy = object.find("lossy"); lossy != object.end()) {
    check(lossy->is_boolean(), "{}: \"lossy\" is neither true nor false", name);
    s.lossy = lossy->get<bool>();
  }
  if (const std::string container = text_of(object, "container", name); !container.empty()) {
    try {
      s.container = container_named(container);
    } catch (const Error& e) {
      fail("{}: \"container\": {}", name, e.what());
    }
  }
  check(s.vocab != 0, "{}: \"vocab\" is 0", name);
  check(s.vocab == -1 || s.end_of_text < s.vocab, "{}: \"end_of_text\" {} is not below \"vocab\" {}", name,
        s.end_of_text, s.vocab);
  return s;
}

std::string write_sidecar(const Sidecar& s) {
  nlohmann::ordered_json object;
  object["format"] = "mylos-tokens";
  object["version"] = 1;
  object["dtype"] = std::string(name_of(s.dtype));
  if (s.tokens >= 0) object["tokens"] = s.tokens;
  if (s.vocab >= 0) object["vocab"] = s.vocab;
  if (!s.tokenizer.empty()) object["tokenizer"] = s.tokenizer;
  if (s.end_of_text >= 0) object["end_of_text"] = s.end_of_text;
  if (s.documents >= 0) object["documents"] = s.documents;
  if (s.text_bytes >= 0) object["text_bytes"] = s.text_bytes;
  if (!s.sha256.empty()) object["sha256"] = s.sha256;
  if (s.lossy) object["lossy"] = true;
  if (s.container) object["container"] = std::string(name_of(*s.container));
  return object.dump(2) + "\n";
}

std::string sidecar_path(const std::string& token_file) { return token_file + ".json"; }

std::optional<Sidecar> read_sidecar(const std::string& token_file) {
  const std::string path = sidecar_path(token_file);
  std::error_code error;  // a name that cannot be looked up is a file that is not there
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  check(std::filesystem::is_regular_file(path, error), "sidecar '{}' is not a file",
        path);  // a pipe would be waited for
  return parse_sidecar(read_file(path, kMaxSidecarBytes), path);
}

}  // namespace mylos::data
