#include "data/inspect.hpp"

#include <nlohmann/json.hpp>

#include "data/file.hpp"
#include "data/files.hpp"
#include "data/token_formats.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;
using test::write_tokens;

TEST(Inspect, CountsAndShows) {
  TemporaryFolder folder;
  const std::string path = write_tokens<std::uint16_t>(folder / "a.bin", {'m', 'i', 'l', 'l', 256, 'g', 256});
  write_bytes(
      sidecar_path(path),
      R"({"dtype": "u16", "vocab": 257, "end_of_text": 256, "documents": 2, "tokenizer": "byte", "text_bytes": 5})");
  const TokenFileReport r = inspect(path, {.first = 1, .show = 3});
  EXPECT_EQ(r.tokens, 7);
  EXPECT_EQ(r.smallest, 'g');
  EXPECT_EQ(r.largest, 256);
  EXPECT_EQ(r.distinct, 5);
  EXPECT_EQ(r.documents, 2);
  EXPECT_EQ(r.excerpt, (std::vector<std::int32_t>{'i', 'l', 'l'}));
  EXPECT_EQ(r.excerpt_text, "ill");
  EXPECT_TRUE(r.problems.empty());
  EXPECT_HAS(error_of([&] { inspect(path, {.first = 7}); }), "--first 7: '" + path + "' holds 7 tokens");
  const auto json = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(json.at("tokens"), 7);
  EXPECT_EQ(json.at("sidecar").at("vocab"), 257);
}

TEST(Inspect, ReportsWhereFileAndSidecarDisagree) {
  TemporaryFolder folder;
  const std::string path = write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 300});
  write_bytes(
      sidecar_path(path),
      R"({"dtype": "u16", "vocab": 257, "end_of_text": 256, "documents": 2, "tokenizer": "byte", "sha256": "00"})");
  const TokenFileReport r = inspect(path);
  ASSERT_EQ(r.problems.size(), 4u);
  EXPECT_HAS(r.problems[0], "largest token 300");
  EXPECT_HAS(r.problems[1], "SHA-256");
  EXPECT_HAS(r.problems[2], "0 end tokens, the sidecar says 2");
  EXPECT_HAS(r.problems[3], "tokenizer 'byte' does not have");
  EXPECT_HAS(describe(r), "PROBLEM");
}

// "abc": FIPS 180-2, appendix B.1.
TEST(Inspect, Sha256IsTheStandardOne) {
  TemporaryFolder folder;
  const TokenFileReport r = inspect(
      write_bytes(folder / "a.npy", test::npy("{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}", "ab")));
  EXPECT_EQ(r.sha256.size(), 64u);
  Sha256 sum;
  sum.add("ab", 2);
  sum.add("c", 1);
  EXPECT_EQ(sum.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Inspect, ShowsTheContainerAndTheDocumentsOfAnIndex) {
  TemporaryFolder folder;
  const std::string path =
      test::MegatronBytes<std::uint16_t>{.tokens = {'m', 'i', 'l'}, .sizes = {1, 2}, .documents = {0, 1, 2}}.write(
          folder / "a");
  const TokenFileReport r = inspect(path, {.tokenizer = "byte"});
  EXPECT_EQ(r.container, Container::megatron);
  EXPECT_EQ(r.documents, 2);
  EXPECT_EQ(r.excerpt_text, "mil");
  EXPECT_HAS(describe(r), "format     megatron");
  EXPECT_EQ(nlohmann::json::parse(to_json(r)).at("format"), "megatron");
  const std::string shard = write_bytes(folder / "s.bin", test::llmc<std::uint32_t>({70000, 1}));
  const TokenFileReport s = inspect(shard, {.format = {.container = Container::llmc}});
  EXPECT_EQ(s.largest, 70000);
  EXPECT_EQ(s.documents, -1);
}

TEST(Inspect, ErrorsForFilesThatCannotBeRead) {
  TemporaryFolder folder;
  EXPECT_HAS(error_of([&] { inspect(folder / "none.bin"); }), "cannot open");
  EXPECT_HAS(error_of([&] { inspect(write_bytes(folder / "a.bin", "1234")); }), "unknown dtype");
  EXPECT_EQ(inspect(folder / "a.bin", {.format = {DType::u32}}).tokens, 1);
}

}  // namespace
}  // namespace mylos::data
