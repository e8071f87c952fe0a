#include "data/token_file.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "data/files.hpp"
#include "data/token_source.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;
using test::write_tokens;

TEST(TokenFile, ReadsBothWidthsAnywhere) {
  TemporaryFolder folder;
  const std::vector<std::int32_t> values = test::random_ints(1001, 0, 65536, test::test_seed());
  write_tokens(folder / "a.bin", std::vector<std::uint16_t>(values.begin(), values.end()));
  write_tokens(folder / "b.bin", std::vector<std::uint32_t>(values.begin(), values.end()));
  const TokenFile a(folder / "a.bin", {DType::u16}), b(folder / "b.bin", {DType::u32});
  ASSERT_EQ(a.size(), 1001);
  ASSERT_EQ(b.size(), 1001);
  for (const std::int64_t first : {0, 1, 500, 1000, 1001})
    for (const std::int64_t n : {0, 1, 17, 501, 1001}) {
      if (first + n > 1001) continue;
      std::vector<std::int32_t> x(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(n));
      a.read(first, n, 65536, x.data());
      b.read(first, n, 65536, y.data());
      EXPECT_TRUE(std::equal(x.begin(), x.end(), values.begin() + first));
      EXPECT_EQ(x, y);
    }
  std::int32_t out;
  EXPECT_HAS(error_of([&] { a.read(1001, 1, 65536, &out); }), "it holds 1001");
  EXPECT_HAS(error_of([&] { a.read(-1, 1, 65536, &out); }), "tokens -1 to 0");
}

// A u16 file with an even number of tokens could pass for u32: the reference system reads it so.
TEST(TokenFile, NeverGuessesTheDtypeFromTheSize) {
  TemporaryFolder folder;
  const std::string path = write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 3, 4});
  EXPECT_HAS(error_of([&] { TokenFile f(path); }), "unknown dtype");
  write_bytes(sidecar_path(path), R"({"dtype": "u16"})");
  EXPECT_EQ(TokenFile(path).size(), 4);
  EXPECT_HAS(error_of([&] { TokenFile(path, {DType::u32}); }), "stated to be u32, but its sidecar says u16");
  EXPECT_HAS(error_of([&] { TokenFile(path, {DType::i32}); }), "not i32");
}

TEST(TokenFile, SizeMustFit) {
  TemporaryFolder folder;
  EXPECT_HAS(error_of([&] { TokenFile(write_bytes(folder / "a.bin", "12345"), {DType::u16}); }),
             "5 bytes are no whole number of u16");
  EXPECT_HAS(error_of([&] { TokenFile(write_bytes(folder / "b.bin", "123456"), {DType::u32}); }),
             "6 bytes are no whole number of u32");
  EXPECT_HAS(error_of([&] { TokenFile(write_bytes(folder / "c.bin", ""), {DType::u16}); }), "empty");
  EXPECT_HAS(error_of([&] { TokenFile(folder / "none.bin", {DType::u16}); }), "cannot open");
  EXPECT_HAS(error_of([&] { TokenFile(folder.path(), {DType::u16}); }), "not a file");
  write_bytes(folder / "d.bin", "1234");
  write_bytes(folder / "d.bin.json", R"({"dtype": "u16", "tokens": 3})");
  EXPECT_HAS(error_of([&] { TokenFile f(folder / "d.bin"); }), "holds 2 tokens, its sidecar says 3");
}

TEST(TokenFile, ATokenOutsideTheVocabularyNamesFilePlaceAndValue) {
  TemporaryFolder folder;
  const std::string a = write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 3, 100, 5});
  const std::string b = write_tokens<std::uint32_t>(folder / "b.bin", {1, 2, 0xffffffffu, 3});
  std::vector<std::int32_t> out(5);
  const TokenFile file(a, {DType::u16}), wide(b, {DType::u32});
  file.read(0, 5, 101, out.data());
  const std::string message = error_of([&] { file.read(1, 4, 100, out.data()); });
  EXPECT_HAS(message, a);
  EXPECT_HAS(message, "token 100 at position 3");
  EXPECT_HAS(message, "vocabulary of 100");
  EXPECT_HAS(error_of([&] { wide.read(0, 4, std::int64_t(1) << 31, out.data()); }), "token 4294967295 at position 2");
}

TEST(TokenFile, AFileCutUnderTheMapIsAnErrorADeletedOneIsRead) {
  TemporaryFolder folder;
  std::vector<std::uint16_t> tokens(100'000, 7);
  const std::string path = write_tokens(folder / "a.bin", tokens), other = write_tokens(folder / "b.bin", tokens);
  const TokenFile cut(path, {DType::u16}), deleted(other, {DType::u16});
  std::vector<std::int32_t> out(10);
  cut.read(99'990, 10, 10, out.data());
  std::filesystem::resize_file(path, 1000);
  EXPECT_HAS(error_of([&] { cut.read(99'990, 10, 10, out.data()); }), "was cut while in use: 1000 bytes, 200000 when");
  std::filesystem::remove(other);
  deleted.read(99'990, 10, 10, out.data());
  EXPECT_EQ(out, std::vector<std::int32_t>(10, 7));
}

TEST(TokenFile, Moves) {
  TemporaryFolder folder;
  TokenFile a(write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 3}), {DType::u16});
  TokenFile b(std::move(a));
  TokenFile c(write_tokens<std::uint16_t>(folder / "c.bin", {9}), {DType::u16});
  c = std::move(b);
  std::vector<std::int32_t> out(3);
  c.read(0, 3, 10, out.data());
  EXPECT_EQ(out, (std::vector<std::int32_t>{1, 2, 3}));
}

TEST(Sidecar, RoundTrip) {
  const Sidecar s{DType::u32, 123456789012, 128256, "tok.json", 128001, 55, 99, "abc"};
  const Sidecar t = parse_sidecar(write_sidecar(s), "x");
  EXPECT_EQ(write_sidecar(t), write_sidecar(s));
  EXPECT_EQ(t.tokens, 123456789012);
  EXPECT_EQ(t.tokenizer, "tok.json");
}

TEST(Sidecar, WrongContentNamesTheKey) {
  const auto refused = [](const char* json) { return error_of([&] { parse_sidecar(json, "s.json"); }); };
  for (const char* json : {"", "[]", "{", "12", "{\"dtype\":\"u16\"", "\xff\xfe", "null"})
    EXPECT_HAS(refused(json), "s.json");
  EXPECT_HAS(refused("{}"), "\"dtype\" is missing");
  EXPECT_HAS(refused(R"({"dtype": "u8"})"), "\"u8\"");
  EXPECT_HAS(refused(R"({"dtype": 16})"), "\"dtype\" is not a string");
  EXPECT_HAS(refused(R"({"dtype": "u16", "tokens": -1})"), "\"tokens\" is -1");
  EXPECT_HAS(refused(R"({"dtype": "u16", "tokens": 1.5})"), "\"tokens\" is not a whole number");
  EXPECT_HAS(refused(R"({"dtype": "u16", "tokens": 18446744073709551615})"), "18446744073709551615");
  EXPECT_HAS(refused(R"({"dtype": "u16", "vocab": 0})"), "\"vocab\" is 0");
  EXPECT_HAS(refused(R"({"dtype": "u16", "vocab": 5000000000})"), "5000000000");
  EXPECT_HAS(refused(R"({"dtype": "u16", "vocab": 10, "end_of_text": 10})"), "10 is not below \"vocab\" 10");
  EXPECT_HAS(refused(R"({"dtype": "u16", "version": 2})"), "version 2");
  EXPECT_HAS(refused(R"({"dtype": "u16", "format": "other"})"), "\"other\"");
}

TEST(TokenSource, CrossesFilesInTheOrderOfTheirNames) {
  TemporaryFolder folder;
  write_tokens<std::uint16_t>(folder / "x-2.bin", {4, 5});
  write_tokens<std::uint16_t>(folder / "x-1.bin", {0, 1, 2, 3});
  write_tokens<std::uint16_t>(folder / "x-3.bin", {6});
  for (const char* name : {"x-1.bin", "x-2.bin", "x-3.bin"})
    write_bytes(sidecar_path(folder / name),
                R"({"dtype": "u16", "text_bytes": 10, "end_of_text": 6, "vocab": 8, "tokenizer": "t.json"})");
  const TokenSource source({folder / "x-*", folder / "x-2.bin"}, {}, 8);
  EXPECT_EQ(source.size(), 7);
  EXPECT_EQ(source.text_bytes(), 30);
  EXPECT_EQ(source.end_of_text(), 6);
  EXPECT_EQ(source.tokenizer(), folder / "t.json");
  for (std::int64_t first = 0; first <= 7; ++first)
    for (std::int64_t n = 0; first + n <= 7; ++n) {
      std::vector<std::int32_t> out(static_cast<std::size_t>(n));
      source.read(first, n, out.data());
      for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[std::size_t(i)], first + i);
    }
  std::int32_t out;
  EXPECT_HAS(error_of([&] { source.read(7, 1, &out); }), "holds 7");
  EXPECT_HAS(error_of([&] { TokenSource({folder / "x-*"}, {}, 7); }), "model.vocab to at least 8");
}

TEST(TokenSource, SaysNothingThatNotAllSidecarsSay) {
  TemporaryFolder folder;
  write_tokens<std::uint16_t>(folder / "a.bin", {1});
  write_tokens<std::uint16_t>(folder / "b.bin", {1});
  write_bytes(folder / "a.bin.json", R"({"dtype": "u16", "text_bytes": 10, "end_of_text": 6, "tokenizer": "byte"})");
  const TokenSource source({folder / "*.bin"}, {DType::u16}, 8);
  EXPECT_EQ(source.text_bytes(), -1);
  EXPECT_EQ(source.end_of_text(), -1);
  EXPECT_EQ(source.tokenizer(), "");
}

TEST(TokenSource, PatternsMustMatch) {
  TemporaryFolder folder;
  EXPECT_HAS(error_of([&] { TokenSource({folder / "*.bin"}, {DType::u16}, 8); }), "no file matches");
  EXPECT_HAS(error_of([&] { TokenSource({}, {DType::u16}, 8); }), "data.train");
}

TEST(TokenFile, APipeIsRefusedAndNotWaitedFor) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe.bin").c_str(), 0600), 0);
  EXPECT_HAS(error_of([&] { const TokenFile f(folder / "pipe.bin", {DType::u16}); }), "is not a file");
  write_tokens(folder / "a.bin", std::vector<std::uint16_t>{1, 2});
  ASSERT_EQ(mkfifo((folder / "a.bin.json").c_str(), 0600), 0);
  EXPECT_HAS(error_of([&] { const TokenFile f(folder / "a.bin", {DType::u16}); }), "is not a file");
}

}  // namespace
}  // namespace mylos::data
