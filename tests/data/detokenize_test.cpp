#include "data/detokenize.hpp"

#include <algorithm>
#include <filesystem>
#include <random>

#include "data/documents.hpp"
#include "data/files.hpp"
#include "data/texts.hpp"
#include "data/token_file.hpp"
#include "data/tokenize.hpp"
#include "data/tokenizer.hpp"
#include "data/tokenizer_files.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::bpe_is_available;
using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

std::string text_of(const DetokenizeOptions& options) {
  std::string text;
  detokenize(options, [&](std::string_view part) { text += part; });
  return text;
}

// Every character there is but surrogates, and what random_text holds.
std::string every_character() {
  std::string text;
  for (std::uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 61) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const auto tail = [&](int shift) { text += char(0x80 | (c >> shift & 0x3F)); };
    if (c < 0x80) {
      text += char(c);
    } else if (c < 0x800) {
      text += char(0xC0 | c >> 6), tail(0);
    } else if (c < 0x10000) {
      text += char(0xE0 | c >> 12), tail(6), tail(0);
    } else {
      text += char(0xF0 | c >> 18), tail(12), tail(6), tail(0);
    }
  }
  std::mt19937_64 gen(test::test_seed());
  for (int i = 0; i < 50; ++i) text += test::random_text(gen, true);
  return text;
}

void expect_back(const std::string& tokenizer, const std::string& text) {
  TemporaryFolder folder;
  const TokenizeResult r = tokenize({.inputs = {write_bytes(folder / "a.txt", text)},
                                     .out = folder / "out",
                                     .tokenizer = tokenizer,
                                     .validation_fraction = 0});
  EXPECT_TRUE(text_of({.file = r.train.shards.at(0)}) == text) << tokenizer;
  EXPECT_TRUE(text_of({.file = r.train.shards[0], .tokenizer = r.tokenizer}) == text) << tokenizer;
  std::string parts;
  for (std::int64_t at = 0; at < r.train.tokens; at += 10'001)
    parts += text_of({.file = r.train.shards[0], .first = at, .count = 10'001});
  EXPECT_TRUE(parts == text) << tokenizer;
}

TEST(Detokenize, BytesComeBack) {
  std::string all;
  for (int i = 0; i < 3 << 19; ++i) all += char(i * 7 ^ i >> 8);  // more than a block
  expect_back("byte", all);
}

TEST(Detokenize, EveryCharacterComesBackThroughEveryBpe) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  TemporaryFolder folder;
  test::make_tokenizer_files(folder);
  const std::string text = every_character();
  for (const std::string& tokenizer : {std::string("train:300"), folder / "gpt2.json", folder / "llama3.json"})
    expect_back(tokenizer, text);
}

// The words of every special token stand in the text, and no token but the one after each document ends it.
TEST(Detokenize, SpecialTokensInTextAreText) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  TemporaryFolder folder;
  test::make_tokenizer_files(folder);
  const std::string text = "a<|end_of_text|>b <|endoftext|><|begin_of_text|> c</s>";
  for (const char* name : {"one.txt", "two.txt"}) write_bytes(folder / name, text);
  for (const char* name : {"gpt2", "llama3"}) {
    const TokenizeResult r = tokenize({.inputs = {folder / "*.txt"},
                                       .out = folder / name,
                                       .tokenizer = folder / fmt::format("{}.json", name),
                                       .validation_fraction = 0});
    EXPECT_EQ(text_of({.file = r.train.shards.at(0)}), text + text);
    const TokenFile file(r.train.shards[0], {});
    std::vector<std::int32_t> tokens(std::size_t(file.size()));
    file.read(0, file.size(), r.vocab, tokens.data());
    const std::int32_t end = make_tokenizer(r.tokenizer)->end_of_text();
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), end), 2) << name;
    EXPECT_EQ(tokens.back(), end);
  }
}

TEST(Detokenize, WhatChangesTextIsRefusedOrRecorded) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  TemporaryFolder folder;
  test::make_tokenizer_files(folder);
  const std::string text = "e\xcc\x81 and more than eight tokens of text";  // e and an acute accent
  TokenizeOptions options{.inputs = {write_bytes(folder / "a.txt", text)}, .validation_fraction = 0};
  for (const auto& [name, why, back] : {std::tuple{"nfc", "it normalises its text (NFC)", "\xc3\xa9" + text.substr(3)},
                                        {"prefix", "it puts a space before texts", " " + text}}) {
    options.tokenizer = folder / fmt::format("{}.json", name);
    options.out = folder / name;
    options.allow_lossy = false;
    EXPECT_HAS(error_of([&] { tokenize(options); }), why);
    options.allow_lossy = true;
    const TokenizeResult r = tokenize(options);
    EXPECT_HAS(r.lossy, why);
    EXPECT_EQ(text_of({.file = r.train.shards.at(0)}), back);
    EXPECT_TRUE(read_sidecar(r.train.shards[0])->lossy);
    EXPECT_HAS(test::bytes_of(folder / fmt::format("{}/manifest.json", name)), why);
  }
  expect_back(folder / "cut.json", text);
}

TEST(Detokenize, LongDocumentsHaveTheSameTokensInPieces) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  TemporaryFolder folder;
  test::make_tokenizer_files(folder);
  std::mt19937_64 gen(test::test_seed());
  std::string text;
  const std::string words[] = {"the mill", " grinds 12345", ".", "\n", "\n\n", "\n  ", ");\n", " ", "'s", "é"};
  while (text.size() < 20'000) text += words[gen() % std::size(words)];
  for (const char* name : {"gpt2.json", "llama3.json"}) {
    const std::string path = folder / name;
    run_tokenizer_tool({"table", path});
    const auto tokenizer = make_tokenizer(path);
    const std::vector<std::int32_t> whole = tokenizer->encode(text);
    std::vector<std::int32_t> pieces;
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::size_t end = rest.size() > 4000 ? piece_end(rest, 4000) : rest.size();
      for (const std::int32_t t : tokenizer->encode(rest.substr(0, end))) pieces.push_back(t);
      rest.remove_prefix(end);
    }
    EXPECT_EQ(pieces, whole) << name;
  }
}

TEST(Detokenize, FaultsSayWhatToDo) {
  TemporaryFolder folder;
  const std::string file = test::write_tokens<std::uint16_t>(folder / "a.bin", {104, 105, 256, 999});
  const TokenFormat u16{.dtype = DType::u16};
  EXPECT_EQ(text_of({.file = file, .format = u16, .tokenizer = "byte", .count = 3}), "hi");
  EXPECT_HAS(error_of([&] { text_of({.file = file, .format = u16, .tokenizer = "byte"}); }), "999");
  EXPECT_HAS(error_of([&] { text_of({.file = file, .format = u16}); }), "--tokenizer");
  EXPECT_HAS(error_of([&] { text_of({.file = file, .format = u16, .tokenizer = "byte", .first = 5}); }), "--first 5");
}

}  // namespace
}  // namespace mylos::data
