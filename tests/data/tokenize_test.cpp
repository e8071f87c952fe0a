#include "data/tokenize.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "data/files.hpp"
#include "data/inspect.hpp"
#include "data/python_tool.hpp"
#include "data/texts.hpp"
#include "data/token_source.hpp"
#include "data/tokenizer.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::bpe_is_available;
using test::bytes_of;
using test::error_of;
using test::random_text;
using test::TemporaryFolder;
using test::test_seed;
using test::write_bytes;

// The documents of shards, decoded.
std::vector<std::string> documents_of(const std::vector<std::string>& shards, const Tokenizer& tokenizer) {
  std::vector<std::string> documents;
  if (shards.empty()) return documents;
  const TokenSource source(shards, {}, tokenizer.vocab());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.size())), document;
  source.read(0, source.size(), tokens.data());
  for (const std::int32_t t : tokens) {
    document.push_back(t);
    if (t != tokenizer.end_of_text()) continue;
    documents.push_back(tokenizer.decode(document));
    document.clear();
  }
  EXPECT_TRUE(document.empty()) << "the last document has no end token";
  return documents;
}

struct Corpus {
  TemporaryFolder folder;
  std::vector<std::string> documents;  // in the order of their files

  Corpus(int n, bool utf8) {
    std::mt19937_64 gen(test_seed());
    for (int i = 0; i < n; ++i) {
      documents.push_back(random_text(gen, utf8));
      write_bytes(folder / fmt::format("doc-{:04}.txt", i), documents.back());
    }
    write_bytes(folder / "doc-0001x.txt", "");  // left out
  }
};

void expect_split(const Corpus& corpus, const TokenizeResult& result, double fraction) {
  const auto tokenizer = make_tokenizer(result.tokenizer);
  EXPECT_EQ(tokenizer->vocab(), result.vocab);
  const std::vector<std::string> train = documents_of(result.train.shards, *tokenizer),
                                 validation = documents_of(result.validation.shards, *tokenizer);
  EXPECT_EQ(std::int64_t(train.size()), result.train.documents);
  EXPECT_EQ(std::int64_t(validation.size()), result.validation.documents);
  EXPECT_EQ(train.size() + validation.size(), corpus.documents.size());
  EXPECT_NEAR(double(validation.size()), fraction * double(corpus.documents.size()), 0.5);
  // Both sides keep the order, and together they are the documents, byte for byte.
  std::size_t t = 0, v = 0;
  for (const std::string& d : corpus.documents) {
    if (v < validation.size() && validation[v] == d)
      ++v;
    else if (t < train.size() && train[t] == d)
      ++t;
    else
      FAIL() << "a document came back changed: "
             << nlohmann::json(d).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  std::int64_t bytes = 0;
  for (const std::string& d : corpus.documents) bytes += std::int64_t(d.size());
  EXPECT_EQ(result.train.text_bytes + result.validation.text_bytes, bytes);
  for (const TokenizeSplit* side : {&result.train, &result.validation})
    for (const std::string& shard : side->shards) {
      const TokenFileReport report = inspect(shard);
      EXPECT_EQ(report.problems, std::vector<std::string>{}) << shard;
      EXPECT_HAS(describe(report), "sound");
      EXPECT_EQ(nlohmann::json::parse(to_json(report)).at("sha256"), report.sha256);
    }
}

TEST(Tokenize, BytesComeBackAndSplitsAreDeterministic) {
  const Corpus corpus(101, false);
  TemporaryFolder out;
  TokenizeOptions options{
      .inputs = {corpus.folder.path()}, .out = out / "a", .validation_fraction = 0.1, .shard_tokens = 1000};
  const TokenizeResult a = tokenize(options);
  expect_split(corpus, a, 0.1);
  EXPECT_GT(a.train.shards.size(), 1u);
  options.out = out / "b";
  options.inputs = {corpus.folder / "*.txt"};
  const TokenizeResult b = tokenize(options);
  ASSERT_EQ(a.train.shards.size(), b.train.shards.size());
  for (std::size_t i = 0; i < a.train.shards.size(); ++i)
    EXPECT_EQ(bytes_of(a.train.shards[i]), bytes_of(b.train.shards[i]));
}

TEST(Tokenize, JsonLinesAreDocuments) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += nlohmann::json{{"body", fmt::format("line {} é\n", i)}}.dump() + (i % 3 ? "\n" : "\r\n\n");
  write_bytes(folder / "a.jsonl", lines);
  const TokenizeResult r = tokenize(
      {.inputs = {folder / "a.jsonl"}, .out = folder / "out", .jsonl_field = "body", .validation_fraction = 0});
  EXPECT_EQ(r.train.documents, 20);
  EXPECT_EQ(r.validation.shards.size(), 0u);
  EXPECT_EQ(documents_of(r.train.shards, *make_tokenizer("byte"))[3], "line 3 é\n");
}

TEST(Tokenize, ErrorsSayWhatToDoAndLeaveNothing) {
  TemporaryFolder folder;
  write_bytes(folder / "a.txt", "one");
  write_bytes(folder / "b.txt", "two");
  const std::string out = folder / "out";
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "?.txt"}, .out = out}); }),
             "2 documents are too few for --validation-fraction 0.01: use at least 0.25");
  EXPECT_TRUE(std::filesystem::is_empty(out));
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "*.md"}, .out = out}); }), "no file matches");
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {}, .out = out}); }), "nothing to tokenize");
  ASSERT_EQ(::mkfifo((folder / "pipe.txt").c_str(), 0600), 0);
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "pipe.txt"}, .out = out}); }), "neither a file nor a folder");
  std::filesystem::remove(folder / "pipe.txt");
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder.path()}, .extensions = {".rs"}, .out = out}); }),
             "no file ending in .rs");
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "a.txt"}, .out = out, .validation_fraction = 0.9}); }),
             "0.9");
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "a.txt"}, .out = out, .tokenizer = "train:10"}); }), "257");
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "a.txt"}, .out = out, .tokenizer = "bpe"}); }),
             "'bpe' is neither");
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "a.txt"}, .out = out, .tokenizer = "t.model"}); }),
             "SentencePiece .model that exists");
  write_bytes(folder / "bad.jsonl", "{\"text\": \"ok\"}\n{\"text\": 1}\n");
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "bad.jsonl"}, .out = out, .validation_fraction = 0}); }),
             "bad.jsonl:2: no text under \"text\"");
  EXPECT_TRUE(std::filesystem::is_empty(out));
  tokenize({.inputs = {folder / "?.txt"}, .out = out, .validation_fraction = 0.5});
  EXPECT_HAS(error_of([&] { tokenize({.inputs = {folder / "?.txt"}, .out = out}); }), "holds token shards already");
}

TEST(Tokenize, BpeTrainsAndComesBack) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  const Corpus corpus(120, true);
  TemporaryFolder out;
  TokenizeOptions options{.inputs = {corpus.folder.path()},
                          .out = out / "a",
                          .tokenizer = "train:300",
                          .validation_fraction = 0.1,
                          .shard_tokens = 1500};
  const TokenizeResult a = tokenize(options);
  EXPECT_LE(a.vocab, 300);
  EXPECT_GT(a.vocab, 257);
  EXPECT_LT(a.train.tokens, a.train.text_bytes);  // it learned to join bytes
  expect_split(corpus, a, 0.1);

  // A loaded tokenizer is copied beside the shards and gives the same tokens.
  options.out = out / "b";
  options.tokenizer = a.tokenizer;
  const TokenizeResult b = tokenize(options);
  ASSERT_EQ(a.train.shards.size(), b.train.shards.size());
  for (std::size_t i = 0; i < a.train.shards.size(); ++i)
    EXPECT_EQ(bytes_of(a.train.shards[i]), bytes_of(b.train.shards[i]));
  EXPECT_EQ(TokenSource(b.train.shards, {}, b.vocab).tokenizer(), out / "b/tokenizer.json");

  // A prompt, the words of special tokens included, comes back too; a shard decodes in Python as in C++.
  const auto tokenizer = make_tokenizer(b.tokenizer);
  std::mt19937_64 gen(test_seed() + 1);
  for (int i = 0; i < 3; ++i) {
    const std::string text = random_text(gen, true) + "<|end_of_text|>";
    const std::vector<std::int32_t> tokens = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(tokens), text);
    for (const std::int32_t t : tokens) EXPECT_NE(t, tokenizer->end_of_text());
  }
  std::string joined;
  for (const std::string& d : documents_of({b.train.shards[0]}, *tokenizer)) joined += d;
  EXPECT_EQ(run_tokenizer_tool({"decode", "--tokenizer", b.tokenizer, b.train.shards[0]}), joined);
}

TEST(Tokenize, BpeRefusesWhatIsNotUtf8) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  TemporaryFolder folder;
  write_bytes(folder / "a.txt", "good\xff");
  const std::string message = error_of([&] {
    tokenize({.inputs = {folder / "a.txt"}, .out = folder / "out", .tokenizer = "train:300", .validation_fraction = 0});
  });
  EXPECT_HAS(message, "a.txt: byte 4 is not UTF-8");
  write_bytes(folder / "b.txt", "good é");
  const TokenizeResult r = tokenize({.inputs = {folder / "?.txt"},
                                     .out = folder / "skip",
                                     .tokenizer = "train:300",
                                     .skip_invalid = true,
                                     .validation_fraction = 0});
  EXPECT_EQ(r.skipped, std::vector<std::string>{folder / "a.txt"});
  EXPECT_EQ(documents_of(r.train.shards, *make_tokenizer(r.tokenizer)), std::vector<std::string>{"good é"});
  EXPECT_HAS(error_of([&] {
               tokenize({.inputs = {folder / "a.txt"},
                         .out = folder / "out",
                         .tokenizer = write_bytes(folder / "t.json", "{}"),
                         .validation_fraction = 0});
             }),
             "decoder");
}

}  // namespace
}  // namespace mylos::data
