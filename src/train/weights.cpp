#include "train/weights.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "checkpoint/weights.hpp"

namespace mylos::train {
namespace {

namespace fs = std::filesystem;
constexpr const char* kByteTokenizer = "byte";

std::vector<checkpoint::WeightInfo> weight_infos(const model::Transformer& model) {
  std::vector<checkpoint::WeightInfo> infos;
  for (const model::ParameterInfo& p : model.layout().parameters)
    infos.push_back({p.name, model.execution().storage, p.shape});
  return infos;
}

// Elements [first, first + count) of parameter i in the flat buffer.
Tensor part(const model::Transformer& model, std::size_t i, std::int64_t first, std::int64_t count) {
  const std::int64_t begin = model.layout().parameters[i].offset + first;
  return model.weights().slice(0, begin, begin + count);
}

bool is_path(const std::string& tokenizer) { return !tokenizer.empty() && tokenizer != kByteTokenizer; }

}  // namespace

void save_weights(const std::string& path, const Stream& stream, const model::Transformer& model, const Config& config,
                  std::int64_t step, const std::string& tokenizer) {
  checkpoint::WeightsMeta meta{.step = step, .config_toml = to_toml(config), .texts = {}};
  if (is_path(tokenizer))
    meta.texts["tokenizer"] = fs::proximate(fs::absolute(tokenizer), fs::absolute(path).parent_path()).string();
  else if (!tokenizer.empty())
    meta.texts["tokenizer"] = tokenizer;
  checkpoint::write_weights(
      path, weight_infos(model),
      [&](std::size_t i, std::int64_t first, std::int64_t count, void* out) {
        const Tensor t = part(model, i, first, count);
        download(stream, t, out, t.bytes());
      },
      meta);
}

WeightsFile describe_weights(const std::string& path) {
  const checkpoint::WeightsReader reader(path);
  WeightsFile file;
  file.config = parse_config(reader.meta().config_toml, path + " (config)");
  file.step = reader.meta().step;
  if (const auto found = reader.meta().texts.find("tokenizer"); found != reader.meta().texts.end()) {
    file.tokenizer = found->second;
    if (is_path(file.tokenizer))
      file.tokenizer = (fs::path(path).parent_path() / file.tokenizer).lexically_normal().string();
  }
  return file;
}

void load_weights(const std::string& path, const Stream& stream, const model::Transformer& model) {
  const checkpoint::WeightsReader reader(path);
  reader.read(weight_infos(model), [&](std::size_t i, std::int64_t first, std::int64_t count, const void* in) {
    const Tensor t = part(model, i, first, count);
    upload(stream, in, t.bytes(), t);
  });
  stream.fence();
}

}  // namespace mylos::train
