#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "data/corpus_inspect.hpp"
#include "data/detokenize.hpp"
#include "data/files.hpp"
#include "data/inspect.hpp"
#include "data/python_tool.hpp"
#include "data/token_file.hpp"
#include "data/tokenize.hpp"
#include "data/tokenizer.hpp"
#include "data/tokenizer_files.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::bytes_of;
using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

class SentencePiece : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::sentencepiece_is_available())
      GTEST_SKIP() << "no Python with the modules sentencepiece and google.protobuf";
    test::make_sentencepiece_models(folder_);
  }
  std::string model(const char* name) const { return folder_ / fmt::format("{}.model", name); }
  TokenizeResult tokenize_one(const std::string& text, const std::string& tokenizer, const std::string& out) const {
    return tokenize({.inputs = {write_bytes(folder_ / "one.txt", text)},
                     .out = folder_ / out,
                     .tokenizer = tokenizer,
                     .validation_fraction = 0});
  }
  TemporaryFolder folder_;
};

std::vector<std::int32_t> tokens_of(const std::string& shard) {
  const TokenFile file(shard, {});
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, file.size(), std::int64_t(1) << 31, tokens.data());
  return tokens;
}

// What models treat in a way of their own: spaces in runs and at the ends, the letter that stands for a space, the names of
// control and byte tokens.
std::string awkward_text(std::mt19937_64& gen) {
  static const std::vector<std::string> words = {
      " ",      "   ",       "\n",   "\n\n",   "\t",     "\u2581", "\u2581\u2581 ", "</s>", "<s>",  "<unk>",
      "<0x0A>", " the mill", "the ", "\u2047", "\u00a0", "\u3000", "\u200b",        "\r",   "\x7f", "\x01"};
  std::string text;
  for (std::size_t n = 1 + gen() % 20; n-- > 0;)
    text += gen() % 3 == 0 ? test::random_text(gen, true) : words[gen() % words.size()];
  return text;
}

TEST_F(SentencePiece, EveryTextComesBack) {
  std::mt19937_64 gen(test::test_seed());
  std::vector<std::string> documents;
  std::string joined, lines;
  for (int i = 0; i < 300; ++i) {
    documents.push_back(awkward_text(gen));
    joined += documents.back();
    lines += nlohmann::json{{"text", documents.back()}}.dump() + "\n";
  }
  for (const char* name : {"bpe", "unigram", "noprefix"}) {
    TokenizeOptions options{.inputs = {write_bytes(folder_ / "a.jsonl", lines)},
                            .out = folder_ / name,
                            .tokenizer = model(name),
                            .validation_fraction = 0,
                            .jobs = 2};
    const TokenizeResult r = tokenize(options);
    EXPECT_EQ(r.tokenizer, folder_ / fmt::format("{}/tokenizer.model", name));
    EXPECT_EQ(r.lossy, "");
    ASSERT_EQ(r.train.shards.size(), 1u);
    const auto tokenizer = make_tokenizer(r.tokenizer);
    EXPECT_EQ(tokenizer->vocab(), r.vocab);
    std::vector<std::int32_t> document;
    std::size_t n = 0;
    for (const std::int32_t t : tokens_of(r.train.shards[0])) {
      document.push_back(t);
      if (t != tokenizer->end_of_text()) continue;
      ASSERT_LT(n, documents.size()) << name;
      ASSERT_EQ(tokenizer->decode(document), documents[n]) << name << ", document " << n;
      // The words of control tokens are text: none of them (their bytes are empty) came of it.
      for (std::size_t i = 0; i + 1 < document.size(); ++i)
        ASSERT_NE(tokenizer->decode({&document[i], 1}, document[0]), "") << name << ", document " << n;
      document.clear();
      ++n;
    }
    EXPECT_EQ(n, documents.size()) << name;

    // So does the shard, whole and in parts that begin in the middle of documents, here and in Python.
    std::string whole, parts;
    detokenize({.file = r.train.shards[0]}, [&](std::string_view t) { whole += t; });
    EXPECT_TRUE(whole == joined) << name;
    for (std::int64_t at = 0; at < r.train.tokens; at += 7)
      detokenize({.file = r.train.shards[0], .first = at, .count = 7}, [&](std::string_view t) { parts += t; });
    EXPECT_TRUE(parts == joined) << name;
    EXPECT_TRUE(run_tokenizer_tool({"decode", "--tokenizer", r.tokenizer, r.train.shards[0]}) == joined) << name;
    EXPECT_EQ(inspect(r.train.shards[0]).problems, std::vector<std::string>{}) << name;
    EXPECT_EQ(inspect_corpus(options.out, true).problems, std::vector<std::string>{}) << name;
  }
}

TEST_F(SentencePiece, LongDocumentsHaveTheSameTokensInPieces) {
  std::mt19937_64 gen(test::test_seed());
  const std::string words[] = {"the mill", " grinds 12345", ".", "\n", "\n\n", "\n  ", ");\n", " ", "'s", "é"};
  std::string text = " ";
  while (text.size() < std::size_t(5) << 19) text += words[gen() % std::size(words)];
  for (const char* name : {"bpe", "unigram"}) {
    const TokenizeResult r = tokenize_one(text, model(name), name);
    std::vector<std::int32_t> whole = make_tokenizer(r.tokenizer)->encode(text);
    whole.push_back(make_tokenizer(r.tokenizer)->end_of_text());
    EXPECT_TRUE(tokens_of(r.train.shards.at(0)) == whole) << name;
  }
}

TEST_F(SentencePiece, TokensAreThoseOfTheLibrary) {
  static const char* const kEncode = R"(
import json, sys
from sentencepiece import SentencePieceProcessor
print(json.dumps(SentencePieceProcessor(model_file=sys.argv[1]).encode(sys.stdin.buffer.read().decode())))
)";
  std::mt19937_64 gen(test::test_seed());
  std::string text;
  while (text.size() < 100'000) text += test::random_text(gen, true) + "  the mill\n";
  for (const char* name : {"bpe", "unigram", "noprefix"}) {
    run_tokenizer_tool({"table", model(name)});
    const auto library = nlohmann::json::parse(run_program({test::test_python(), "-c", kEncode, model(name)}, text));
    EXPECT_TRUE(make_tokenizer(model(name))->encode(text) == library.get<std::vector<std::int32_t>>()) << name;
  }
}

TEST_F(SentencePiece, ALossyModelIsRefusedOrRecorded) {
  const std::string text = "the  mill\nＡ Ω ";
  const std::string message = error_of([&] { tokenize_one(text, model("t5"), "o"); });
  for (const char* why :
       {"it normalises its text (nmt_nfkc)", "it drops white space", "byte_fallback", "--allow-lossy"})
    EXPECT_HAS(message, why);
  const TokenizeResult r = tokenize({.inputs = {folder_ / "one.txt"},
                                     .out = folder_ / "o",
                                     .tokenizer = model("t5"),
                                     .allow_lossy = true,
                                     .validation_fraction = 0});
  EXPECT_HAS(r.lossy, "nmt_nfkc");
  EXPECT_TRUE(read_sidecar(r.train.shards.at(0))->lossy);
  const auto manifest = nlohmann::json::parse(bytes_of(folder_ / "o/manifest.json"));
  EXPECT_EQ(manifest["options"]["allow_lossy"], true);
  EXPECT_EQ(manifest["tokenizer"]["lossy"], r.lossy);
  EXPECT_HAS(describe(inspect_corpus(folder_ / "o")), "nmt_nfkc");
  EXPECT_HAS(describe(inspect(r.train.shards[0])), "not every text comes back");
  std::string back;
  detokenize({.file = r.train.shards[0]}, [&](std::string_view t) { back += t; });
  EXPECT_EQ(back, "the mill  \u2047   \u2047 ");  // what is not known shows
}

TEST_F(SentencePiece, FaultyModelsAreErrors) {
  const std::string good = bytes_of(model("bpe"));
  const auto message = [&](const std::string& content) {
    return error_of([&] { tokenize_one("text", write_bytes(folder_ / "bad.model", content), "o"); });
  };
  for (const std::string& content :
       {std::string(), std::string("text"), good.substr(0, 100), good.substr(0, good.size() / 2),
        std::string("\x0a\xff\xff\xff\xff\x0f", 6), std::string(1000, '\0'), "x" + good})
    EXPECT_HAS(message(content), "no SentencePiece model that mylos reads");
  EXPECT_HAS(message("IQ== 0\nIg== 1\n"), "tiktoken");
  EXPECT_HAS(message(bytes_of(model("noeos"))), "no token that ends a text (</s>)");
  EXPECT_HAS(message(bytes_of(model("suffix"))), "treat_whitespace_as_suffix");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "o"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "o/manifest.json"));

  // Whatever changed bytes do to the library, here it is an Error or a text that comes back.
  std::mt19937_64 gen(test::test_seed());
  for (int i = 0; i < 12; ++i) {
    std::string bad = good;
    for (int n = 0; n < 3; ++n) bad[gen() % bad.size()] = char(gen());
    const std::string text = awkward_text(gen);
    try {
      const TokenizeResult r =
          tokenize_one(text, write_bytes(folder_ / "bad.model", bad), fmt::format("changed-{}", i));
      std::string back;
      detokenize({.file = r.train.shards.at(0)}, [&](std::string_view t) { back += t; });
      EXPECT_EQ(back, text);
    } catch (const Error&) {
    }
  }
}

// A tokenizer.json made of a SentencePiece model says where to turn.
TEST_F(SentencePiece, ItsTokenizerJsonPointsAtTheModel) {
  const std::string json = write_bytes(
      folder_ / "llama2.json",
      R"({"decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]}})");
  EXPECT_HAS(error_of([&] { tokenize_one("text", json, "o"); }), "give its tokenizer.model");
}

}  // namespace
}  // namespace mylos::data
