#include "data/corpus_inspect.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/files.hpp"
#include "data/tokenize.hpp"

namespace mylos::data {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

struct Corpus {
  TemporaryFolder folder;
  std::string out = folder / "out";
  Corpus() {
    for (int i = 0; i < 10; ++i) write_bytes(folder / fmt::format("{}.txt", i), std::string(100, char('a' + i)));
    tokenize({.inputs = {folder / "*.txt"}, .out = out, .validation_fraction = 0.2, .shard_tokens = 300});
  }
  std::string operator/(const char* file) const { return (fs::path(out) / file).string(); }
  std::vector<std::string> problems(bool sha256 = false) const { return inspect_corpus(out, sha256).problems; }
};

TEST(InspectCorpus, ShowsWhatIsThere) {
  const Corpus corpus;
  const CorpusReport r = inspect_corpus(corpus.out, true);
  EXPECT_EQ(r.problems, std::vector<std::string>{});
  ASSERT_EQ(r.train.size(), 3u);
  EXPECT_EQ(r.train[0].stated.tokens, 303);
  EXPECT_EQ(r.train[0].bytes, 606);
  EXPECT_EQ(r.validation.at(0).stated.documents, 2);
  const std::string text = describe(r);
  for (const char* part : {"tokenizer  byte, vocabulary 257", "10 files", "train-00002.bin", "train (3 shards)",
                           "validation (1 shards)", "808", "0.99 B of text/token", "sound"})
    EXPECT_HAS(text, part);
  const auto json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json["train"]["tokens"], 808);
  EXPECT_EQ(json["validation"]["text_bytes"], 200);
  EXPECT_EQ(json["train"]["shards"][2]["bytes"], 404);
  EXPECT_TRUE(json["problems"].empty());
}

TEST(InspectCorpus, SaysWhereFilesAndManifestDisagree) {
  const Corpus corpus;
  fs::resize_file(corpus / "train-00000.bin", 600);
  fs::remove(corpus / "train-00001.bin");
  std::string changed = bytes_of(corpus / "train-00002.bin");
  changed[0] ^= 1;
  write_bytes(corpus / "train-00002.bin", changed);
  fs::remove(corpus / "validation-00000.bin.json");
  write_bytes(corpus / "train-00003.bin", "ab");
  const std::vector<std::string> fast = corpus.problems();
  ASSERT_EQ(fast.size(), 4u);
  EXPECT_HAS(fast[0], "train-00000.bin has 600 bytes, the manifest says 606 (303 u16 tokens)");
  EXPECT_HAS(fast[1], "train-00001.bin is missing");
  EXPECT_HAS(fast[2], "validation-00000.bin has no sidecar");
  EXPECT_HAS(fast[3], "train-00003.bin is not in the manifest");
  const std::vector<std::string> slow = corpus.problems(true);
  ASSERT_EQ(slow.size(), 5u);
  EXPECT_HAS(slow[2], "the SHA-256 of train-00002.bin is");
  EXPECT_HAS(describe(inspect_corpus(corpus.out)), "missing");
}

TEST(InspectCorpus, ChecksSidecarsAndTheRun) {
  const Corpus corpus;
  auto sidecar = nlohmann::json::parse(bytes_of(corpus / "train-00001.bin.json"));
  sidecar["documents"] = 4;
  write_bytes(corpus / "train-00001.bin.json", sidecar.dump());
  write_bytes(corpus / "train-00002.bin.json", "[");
  auto manifest = nlohmann::json::parse(bytes_of(corpus / "manifest.json"));
  std::vector<std::string> problems = corpus.problems();
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_HAS(problems[0], "the sidecar of train-00001.bin and the manifest say different things");
  EXPECT_HAS(problems[1], "not JSON");
  manifest["complete"] = false;
  manifest["position"] = {{"file", 3}, {"offset", 0}, {"line", 0}, {"document", 3}};
  write_bytes(corpus / "manifest.json", manifest.dump());
  fs::rename(corpus / "train-00000.bin", corpus / "train-00000.bin.partial");
  problems = corpus.problems(true);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_HAS(problems[0], "the run has not ended: 3 of 10 inputs are done");
  manifest["tokenizer"]["name"] = "tokenizer.json";
  write_bytes(corpus / "manifest.json", manifest.dump());
  EXPECT_HAS(corpus.problems().back(), "tokenizer.json");
}

TEST(InspectCorpus, ErrorsForOtherFolders) {
  const Corpus corpus;
  auto manifest = nlohmann::json::parse(bytes_of(corpus / "manifest.json"));
  manifest["tokenizer"]["name"] = "../../pipe";
  write_bytes(corpus / "manifest.json", manifest.dump());
  EXPECT_HAS(error_of([&] { inspect_corpus(corpus.out); }), "its tokenizer is '../../pipe'");
  EXPECT_HAS(error_of([&] { inspect_corpus(corpus.folder.path()); }), "was not made by `mylos tokenize`");
  for (const auto& [content, why] :
       std::map<std::string, std::string>{{"", "it is not JSON (byte 1: unexpected end of input"},
                                          {"{\"format\": ", "it is not JSON (byte 12: unexpected end of input"},
                                          {"[]", "its \"format\" is missing"},
                                          {"{}", "its \"format\" is missing"},
                                          {R"({"format": "mylos-corpus", "version": 2})", "its version is not known"},
                                          {R"({"format": "mylos-corpus", "version": 1, "complete": 3})",
                                           "its \"complete\" is of another type than it has to be (number)"}}) {
    write_bytes(corpus / "manifest.json", content);
    const std::string error = error_of([&] { inspect_corpus(corpus.out); });
    EXPECT_HAS(error, "manifest.json' is no manifest of token shards: " + why);
    EXPECT_HAS(error, "tokenize into a new folder");
    EXPECT_EQ(error.find("json.exception"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace mylos::data
