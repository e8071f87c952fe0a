#include "data/detokenize.hpp"

#include <filesystem>
#include <random>

#include "data/documents.hpp"
#include "data/files.hpp"
#include "data/texts.hpp"
#include "data/tokenize.hpp"
#include "data/tokenizer.hpp"
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

// Files as the models ship them: byte-level BPE with the pre-tokenizer and the special tokens of GPT-2 or Llama 3.
const char* const kMakeTokenizers = R"(
import sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
llama = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
text = ["the mill grinds the grain, 12345 times"] * 9
for name, end, pre in (
    ("gpt2", "<|endoftext|>", ByteLevel(add_prefix_space=False)),
    ("llama3", "<|end_of_text|>", Sequence([Split(Regex(llama), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])),
):
    t = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=300, initial_alphabet=ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken("<|begin_of_text|>", special=True), AddedToken(end, special=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])
    t.save(f"{sys.argv[1]}/{name}.json")
)";

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
  run_program({test::test_python(), "-c", kMakeTokenizers, folder.path()}, "");
  const std::string text = every_character();
  for (const std::string& tokenizer : {std::string("train:300"), folder / "gpt2.json", folder / "llama3.json"})
    expect_back(tokenizer, text);
}

TEST(Detokenize, LongDocumentsHaveTheSameTokensInPieces) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  TemporaryFolder folder;
  run_program({test::test_python(), "-c", kMakeTokenizers, folder.path()}, "");
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
