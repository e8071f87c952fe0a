#include "data/validate.hpp"

#include "data/document_index.hpp"
#include "data/file.hpp"
#include "data/files.hpp"
#include "data/token_formats.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;
using test::write_tokens;

TEST(Validate, CountsOfEveryLengthAndWidth) {
  TemporaryFolder folder;
  for (const std::int64_t n : {1, 31, 32, 33, 40'000, 65'537, 5'000'000}) {
    const std::vector<std::int32_t> values =
        test::random_ints(std::size_t(n), 0, 300, test::test_seed() + std::uint64_t(n));
    const std::int64_t ends = std::count(values.begin(), values.end(), 7);
    const std::int32_t largest = *std::max_element(values.begin(), values.end());
    const std::string a = write_tokens(folder / "a.bin", std::vector<std::uint16_t>(values.begin(), values.end()));
    const std::string b = write_tokens(folder / "b.bin", std::vector<std::uint32_t>(values.begin(), values.end()));
    for (const std::string& path : {a, b}) {
      write_bytes(sidecar_path(path),
                  fmt::format(R"({{"dtype": "{}", "vocab": 300, "end_of_text": 7, "documents": {}}})",
                              path == a ? "u16" : "u32", ends));
      for (const int threads : {1, 3}) {
        const Validation v = validate(path, {.threads = threads});
        EXPECT_TRUE(v.problems.empty()) << describe(v);
        EXPECT_EQ(v.tokens, n);
        EXPECT_EQ(v.documents, ends);
        EXPECT_EQ(v.largest, largest);
        EXPECT_EQ(v.vocab, 300);
      }
    }
  }
}

// All of them end tokens: more than a counter of 16 bits holds.
TEST(Validate, ManyEndTokens) {
  TemporaryFolder folder;
  const std::string path = write_tokens(folder / "a.bin", std::vector<std::uint16_t>(200'000, 9));
  write_bytes(sidecar_path(path), R"({"dtype": "u16", "vocab": 10, "end_of_text": 9, "documents": 200000})");
  EXPECT_EQ(validate(path).documents, 200'000);
  const TokenFile file(path);
  EXPECT_EQ(file.scan(0, 200'000, 65'536 + 9).ends, 0) << "an end token that the width cannot hold";
}

TEST(Validate, NamesTheFirstTokenOutsideTheVocabulary) {
  TemporaryFolder folder;
  std::vector<std::uint32_t> tokens(7'000'000, 5);
  tokens[6'999'999] = 4'000'000'000u;
  tokens[4'321'000] = 300;
  const std::string path = write_tokens(folder / "a.bin", tokens);
  const auto of = [&](std::int64_t vocab) {
    return validate(path, {.format = {DType::u32}, .vocab = vocab, .threads = 2});
  };
  const std::string line = describe(of(300));
  EXPECT_HAS(line, path + ": FAILED");
  EXPECT_HAS(line, "token 300 at position 4321000 is not below the vocabulary of 300");
  EXPECT_HAS(describe(of(301)), "token 4000000000 at position 6999999");
  EXPECT_TRUE(of(4'000'000'001).problems.empty());
}

TEST(Validate, HoldsTheSidecarAgainstTheFile) {
  TemporaryFolder folder;
  const std::string path = write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 9});
  write_bytes(sidecar_path(path), R"({"dtype": "u16", "vocab": 10, "end_of_text": 9, "documents": 2, "sha256": "00"})");
  Validation v = validate(path);
  ASSERT_EQ(v.problems.size(), 2u);
  EXPECT_HAS(v.problems[0], "1 end tokens, its sidecar says 2 documents");
  EXPECT_HAS(v.problems[1], "its sidecar says 00");
  EXPECT_EQ(validate(path, {.sha256 = false}).problems.size(), 1u);
  write_bytes(sidecar_path(path), R"({"dtype": "u16", "vocab": 10, "sha256": ")" + sha256_of(path) + "\"}");
  v = validate(path);
  EXPECT_HAS(describe(v), "sound: raw, 3 u16 tokens, largest 9 of 10, SHA-256 agrees");
  EXPECT_HAS(describe(validate(path, {.vocab = 9})), "position 2 is not below the vocabulary of 9");
  EXPECT_EQ(validate(path, {.vocab = 100}).vocab, 10) << "the smaller of the two counts";
}

TEST(Validate, DocumentsOfAnIndex) {
  TemporaryFolder folder;
  const std::string path =
      test::MegatronBytes<std::uint16_t>{.tokens = {1, 2, 3}, .sizes = {1, 2}, .documents = {0, 1, 2}}.write(folder /
                                                                                                             "a");
  const Validation v = validate(path, {.vocab = 4});
  EXPECT_EQ(v.documents, 2);
  EXPECT_EQ(v.container, Container::megatron);
  write_bytes(sidecar_path(path), R"({"dtype": "u16", "documents": 3})");
  EXPECT_HAS(describe(validate(path, {.vocab = 4})), "2 documents, its sidecar says 3");
}

TEST(Validate, HoldsTheIndexOfDocumentsAgainstEveryToken) {
  TemporaryFolder folder;
  std::vector<std::uint16_t> tokens(5000, 1);
  for (std::size_t i = 3; i < tokens.size(); i += 2)
    tokens[i] = 9;  // more documents than are looked at when one is opened
  const std::string path = write_tokens<std::uint16_t>(folder / "a.bin", tokens);
  write_bytes(sidecar_path(path), R"({"dtype": "u16", "vocab": 10})");
  const TokenFile file(path);
  write_document_index(file, 9);
  EXPECT_TRUE(validate(path).problems.empty());
  DocumentIndex index = *read_document_index(file);
  index.ends.erase(index.ends.begin() + 1234);
  write_bytes(document_index_path(path), bytes_of(index));
  const Validation v = validate(path);
  ASSERT_EQ(v.problems.size(), 1u);
  EXPECT_HAS(v.problems[0], "a.bin.documents' does not say where its end tokens (9) are");
  write_bytes(document_index_path(path), "MYLOSDOC");
  EXPECT_EQ(validate(path).problems.size(), 1u) << "what cannot be read is one, too";
}

TEST(Validate, NeedsAVocabularyAndASoundFile) {
  TemporaryFolder folder;
  const std::string path = write_bytes(folder / "a.bin", "1234");
  EXPECT_HAS(error_of([&] { validate(path, {.format = {DType::u16}}); }), "--vocab");
  EXPECT_HAS(error_of([&] { validate(path, {.format = {DType::u16}, .vocab = 0}); }), "a vocabulary of 0");
  EXPECT_HAS(error_of([&] { validate(path, {.format = {DType::u16}, .vocab = 9, .threads = -1}); }), "-1 threads");
  EXPECT_HAS(error_of([&] { validate(path, {.vocab = 9}); }), "unknown dtype");
}

}  // namespace
}  // namespace mylos::data
