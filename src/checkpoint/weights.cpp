#include "checkpoint/weights.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos::checkpoint {

namespace {

std::string describe(const WeightInfo& w) { return fmt::format("{}[{}]", name_of(w.dtype), fmt::join(w.shape, ", ")); }

}  // namespace

std::int64_t WeightInfo::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t e : shape) n *= e;
  return n;
}

void write_weights(const std::string& path, const std::vector<WeightInfo>& weights, const FillWeight& fill,
                   const WeightsMeta& meta) {
  Writer w(path);
  w.attribute("/", "schema", std::string("mylos-bundle"));
  w.attribute("/", "schema_version", std::string("1.0.0"));
  w.attribute("/", "kind", std::string("checkpoint"));
  w.attribute("/", "content", std::string("weights"));
  w.attribute("/", "created", utc_now());
  w.attribute("/", "complete", true);
  w.attribute("/", "step", meta.step);
  w.group("/config");
  w.text("/config/toml", meta.config_toml, {"1", "resolved configuration, TOML"});
  for (const auto& [name, value] : meta.texts)
    w.text("/config/" + name, value, {"1", "stated by the program that wrote the weights"});
  std::int64_t parameters = 0;
  for (const WeightInfo& info : weights) parameters += info.elements();
  w.group("/weights", {{"parameters", parameters}, {"tensors", std::int64_t(weights.size())}});
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const WeightInfo& info = weights[i];
    check(!info.name.empty() && info.name.find('/') == std::string::npos,
          "'{}' cannot name a tensor in '{}': no '/' and not empty", info.name, path);
    w.dataset("/weights/" + info.name, info.dtype, info.shape,
              [&](std::int64_t first, std::int64_t count, void* out) { fill(i, first, count, out); },
              {"1", "parameter tensor, row-major [out, in]"});
  }
  w.commit();
}

void write_weights(const std::string& path, const std::vector<WeightInfo>& weights,
                   const std::vector<const void*>& data, const WeightsMeta& meta) {
  check(data.size() == weights.size(), "{} tensors are described and {} are given", weights.size(), data.size());
  write_weights(
      path, weights,
      [&](std::size_t i, std::int64_t first, std::int64_t count, void* out) {
        const std::int64_t size = size_of(weights[i].dtype);
        std::memcpy(out, static_cast<const char*>(data[i]) + first * size, std::size_t(count * size));
      },
      meta);
}

WeightsReader::WeightsReader(const std::string& path) : reader_(path) {
  const Attributes root = reader_.attributes("/");
  const auto text = [&](const char* key) {
    const auto found = root.find(key);
    const auto* value = found == root.end() ? nullptr : std::get_if<std::string>(&found->second);
    return value ? *value : std::string();
  };
  check(text("schema") == "mylos-bundle" && text("kind") == "checkpoint" && reader_.has_group("/weights"),
        "'{}' holds no weights (schema '{}', kind '{}'); give a file that training wrote its weights to", path,
        text("schema"), text("kind"));
  check(text("schema_version").rfind("1.", 0) == 0, "'{}' has schema version '{}'; this program reads 1.x", path,
        text("schema_version"));
  if (const auto step = root.find("step"); step != root.end() && std::holds_alternative<std::int64_t>(step->second)) {
    meta_.step = std::get<std::int64_t>(step->second);
  }
  check(reader_.has_dataset("/config/toml"), "'{}' has no /config/toml, so the model is not known", path);
  for (const std::string& name : reader_.datasets("/config")) {
    if (name == "toml")
      meta_.config_toml = reader_.text("/config/toml");
    else
      meta_.texts[name] = reader_.text("/config/" + name);
  }
  for (const std::string& name : reader_.datasets("/weights")) {
    const DatasetInfo info = reader_.info("/weights/" + name);
    check(!info.is_text, "{}: '/weights/{}' is a text", path, name);
    weights_.push_back({name, info.dtype, info.shape});
  }
}

void WeightsReader::read(const std::vector<WeightInfo>& wanted, const DrainWeight& drain) const {
  std::map<std::string, const WeightInfo*> present;
  for (const WeightInfo& w : weights_) present[w.name] = &w;
  for (const WeightInfo& w : wanted) {
    const auto found = present.find(w.name);
    check(found != present.end(), "{}: the model has a tensor '{}' that the file lacks", reader_.path(), w.name);
    check(found->second->dtype == w.dtype && found->second->shape == w.shape,
          "{}: tensor '{}' is {}, the model wants {}", reader_.path(), w.name, describe(*found->second), describe(w));
    present.erase(found);
  }
  check(present.empty(), "{}: the file has a tensor '{}' that the model lacks", reader_.path(),
        present.empty() ? "" : present.begin()->first);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    reader_.read("/weights/" + wanted[i].name,
                 [&](std::int64_t first, std::int64_t count, const void* in) { drain(i, first, count, in); });
  }
}

void WeightsReader::read(const std::vector<WeightInfo>& wanted, const std::vector<void*>& data) const {
  check(data.size() == wanted.size(), "{} tensors are described and {} are given", wanted.size(), data.size());
  read(wanted, [&](std::size_t i, std::int64_t first, std::int64_t count, const void* in) {
    const std::int64_t size = size_of(wanted[i].dtype);
    std::memcpy(static_cast<char*>(data[i]) + first * size, in, std::size_t(count * size));
  });
}

}  // namespace mylos::checkpoint
