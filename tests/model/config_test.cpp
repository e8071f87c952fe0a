// Presets, width rule, parameter layout and the errors of an impossible model.
#include "model/config.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/config.hpp"
#include "base/error.hpp"
#include "model/parameters.hpp"

namespace mylos::model {
namespace {

std::filesystem::path presets() {
  const char* root = std::getenv("MYLOS_SOURCE_ROOT");
  return std::filesystem::path(root ? root : ".") / "configs" / "model";
}

ModelConfig read_model(const std::string& path, const std::vector<std::string>& overrides = {}) {
  ModelConfig c;
  read_config(path, overrides, {{"model", "the model", [&](ConfigBinder& keys) { bind(keys, c); }}});
  return resolve(c);
}

std::string error_of(ModelConfig c) {
  try {
    resolve(c);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ModelConfig, PresetsHaveExactlyTheirParameters) {
  const std::map<std::string, std::int64_t> expected = {
      {"debug", 19'794'176},   {"125m", 134'105'856},   {"7b", 8'030'261'248},     {"13b", 14'840'386'560},
      {"29b", 28'705'462'272}, {"70b", 70'553'706'496}, {"175b", 174'986'637'312},
  };
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(presets())) {
    const std::string name = entry.path().stem().string();
    ASSERT_TRUE(expected.count(name)) << "no parameter count is known for " << entry.path();
    const ParameterLayout layout = parameter_layout(read_model(entry.path().string()));
    EXPECT_EQ(layout.count, expected.at(name)) << name;
    ++seen;
  }
  EXPECT_EQ(seen, expected.size());
}

TEST(ModelConfig, WidthsOfThePresets) {
  const auto preset = [](const char* name) { return read_model((presets() / name).string()); };
  EXPECT_EQ(preset("7b.toml").ffn, 14336);
  EXPECT_EQ(preset("13b.toml").ffn, 17920);
  EXPECT_EQ(preset("29b.toml").ffn, 21504);
  EXPECT_EQ(preset("125m.toml").ffn, 2048);
  EXPECT_EQ(preset("debug.toml").ffn, 768);
  EXPECT_EQ(preset("7b.toml").head_size, 128);
  EXPECT_EQ(preset("125m.toml").kv_heads, 12);
}

TEST(ModelConfig, OverridesAndResolvedTomlKeepTheModel) {
  ModelConfig c = read_model((presets() / "debug.toml").string(), {"model.tied_head=true", "model.qk_norm=true"});
  EXPECT_TRUE(c.tied_head && c.qk_norm);
  const std::string toml = write_config({{"model", "the model", [&](ConfigBinder& keys) { bind(keys, c); }}});
  EXPECT_NE(toml.find("ffn = 768"), std::string::npos) << toml;
}

TEST(ModelConfig, ImpossibleModelsNameTheKey) {
  EXPECT_NE(error_of({.heads = 6, .kv_heads = 4, .head_size = 8}).find("model.kv_heads is 4"), std::string::npos);
  EXPECT_NE(error_of({.dim = 100, .heads = 7}).find("model.heads is 7"), std::string::npos);
  EXPECT_NE(error_of({.heads = 4, .head_size = 7}).find("model.head_size is 7"), std::string::npos);
  EXPECT_NE(error_of({.dim = 2048, .heads = 4}).find("model.head_size is 512"), std::string::npos);
  EXPECT_NE(error_of({.ffn_multiplier = -1}).find("model.ffn_multiplier is -1"), std::string::npos);
  EXPECT_NE(error_of({.vocab = 1}).find("vocab"), std::string::npos);
  EXPECT_EQ(error_of({}), "");
}

TEST(ParameterLayout, MatricesFirstAlignedWithoutOverlap) {
  for (const bool tied : {false, true})
    for (const bool qk_norm : {false, true}) {
      const ModelConfig c = resolve({.dim = 44,
                                     .layers = 3,
                                     .heads = 6,
                                     .kv_heads = 2,
                                     .head_size = 10,
                                     .ffn = 36,
                                     .vocab = 71,
                                     .tied_head = tied,
                                     .qk_norm = qk_norm});
      const ParameterLayout layout = parameter_layout(c);
      std::int64_t end = 0, count = 0;
      for (const ParameterInfo& p : layout.parameters) {
        EXPECT_EQ(p.offset % 128, 0) << p.name;
        EXPECT_GE(p.offset, end) << p.name;
        EXPECT_LT(p.offset - end, 128) << p.name;
        EXPECT_EQ(p.decay, p.shape.size() == 2) << p.name;
        EXPECT_EQ(p.decay, p.offset < layout.decay_end) << p.name;
        EXPECT_EQ(p.init_std > 0, p.decay) << p.name;
        end = p.offset + p.size;
        count += p.size;
      }
      EXPECT_EQ(layout.count, count);
      EXPECT_GE(layout.total, end);
      EXPECT_EQ(layout.parameters.size(), std::size_t(1 + 4 * 3 + (tied ? 0 : 1) + (qk_norm ? 4 : 2) * 3 + 1));
      EXPECT_EQ(layout.embedding_count, tied ? 0 : 71 * 44);
      EXPECT_NEAR(layout.find("layers.1.ffn.down.weight").init_std, 0.02 / std::sqrt(6.0), 1e-15);
    }
}

TEST(ParameterLayout, UnknownNameSuggestsTheNearest) {
  const ParameterLayout layout = parameter_layout(resolve({}));
  try {
    layout.find("layers.2.ffn.dwn.weight");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("layers.2.ffn.down.weight"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mylos::model
