#include "data/config.hpp"

#include "data/files.hpp"

namespace mylos::data {
namespace {

using test::error_of;

std::vector<ConfigSection> sections(DataConfig& c) {
  return {{"data", "tokens", [&c](ConfigBinder& keys) { bind(keys, c); }}};
}

TEST(DataConfig, ReadsItsKeysAndWritesThemBack) {
  DataConfig c;
  read_config("",
              {"data.train=['a-*.bin', 'b.npy']", "data.format='llmc'", "data.validation=['v.bin']", "data.dtype='u32'",
               "data.documents=true", "data.document_token=7", "data.shuffle=false", "data.seed=11", "data.prefetch=0",
               "data.tokenizer='byte'"},
              sections(c));
  EXPECT_EQ(c.train, (std::vector<std::string>{"a-*.bin", "b.npy"}));
  EXPECT_EQ(c.validation, (std::vector<std::string>{"v.bin"}));
  EXPECT_EQ(declared_format(c).dtype, DType::u32);
  EXPECT_EQ(declared_format(c).container, Container::llmc);
  EXPECT_TRUE(c.documents);
  EXPECT_FALSE(c.shuffle);
  EXPECT_EQ(c.document_token, 7);
  EXPECT_EQ(c.seed, 11);
  EXPECT_EQ(c.prefetch, 0);
  EXPECT_EQ(c.tokenizer, "byte");

  test::TemporaryFolder folder;
  const std::string path = test::write_bytes(folder / "resolved.toml", write_config(sections(c)));
  DataConfig again;
  read_config(path, {}, sections(again));
  EXPECT_EQ(write_config(sections(again)), write_config(sections(c)));
}

TEST(DataConfig, ReadsSourcesAndPhases) {
  DataConfig c;
  test::TemporaryFolder folder;
  read_config(test::write_bytes(folder / "mix.toml", R"(
[data]
packing = "best_fit"
format = "llmc"
document_token = 3
[data.sources.web]
files = ["web-*.bin"]
weight = 2
[data.sources.books]
files = "books.bin"
weight = 1
format = "raw"
validation = "books-validation.bin"
document_token = 4
[[data.phases]]
start_step = 1000
weights = {books = 1.0}
learning_rate = 0.5
)"),
              {"data.sources.web.weight=3"}, sections(c));
  EXPECT_EQ(c.packing, Packing::best_fit);
  const auto sources = training_sources(c);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].first, "books");
  EXPECT_EQ(declared_format(sources[0].second).container, Container::raw);
  EXPECT_EQ(declared_format(sources[1].second).container, Container::llmc)
      << "what a source leaves open is said for all";
  EXPECT_EQ(sources[0].second.document_token, 4);
  EXPECT_EQ(sources[1].second.document_token, 3);
  EXPECT_EQ(sources[1].second.weight, 3);
  EXPECT_EQ(c.phases.at(0).learning_rate, 0.5);
  EXPECT_EQ(validation_sources(c).at(0).second.files, (std::vector<std::string>{"books-validation.bin"}));
  EXPECT_EQ(patterns_of(c), (std::vector<std::string>{"books.bin", "books-validation.bin", "web-*.bin"}));
  DataConfig again;
  read_config(test::write_bytes(folder / "resolved.toml", write_config(sections(c))), {}, sections(again));
  EXPECT_EQ(write_config(sections(again)), write_config(sections(c)));
}

TEST(DataConfig, DtypeComesFromTheSidecarUnlessStated) { EXPECT_EQ(declared_format(DataConfig{}).dtype, std::nullopt); }

TEST(DataConfig, EveryFormat) {
  const auto container = [](const std::string& name) {
    DataConfig c;
    read_config("", {"data.format='" + name + "'"}, sections(c));
    return declared_format(c).container;
  };
  EXPECT_EQ(container("recorded"), std::nullopt);
  for (const Container c : {Container::raw, Container::npy, Container::llmc, Container::megatron})
    EXPECT_EQ(container(std::string(name_of(c))), c);
}

TEST(DataConfig, WrongValuesNameTheKey) {
  DataConfig c;
  EXPECT_HAS(error_of([&] { read_config("", {"data.dtype='u8'"}, sections(c)); }), "data.dtype");
  EXPECT_HAS(error_of([&] { read_config("", {"data.prefetch=-1"}, sections(c)); }), "data.prefetch");
  EXPECT_HAS(error_of([&] { read_config("", {"data.shufle=true"}, sections(c)); }), "shuffle");
}

}  // namespace
}  // namespace mylos::data
