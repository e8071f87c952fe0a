#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/write_lock.hpp"
#include "data/files.hpp"
#include "data/texts.hpp"
#include "data/tokenize.hpp"
#include "data/tokenizer_files.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::bpe_is_available;
using test::bytes_of;
using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

// Several batches: three files of lines and one long text.
struct Inputs {
  TemporaryFolder folder;
  Inputs() {
    std::mt19937_64 gen(test::test_seed());
    for (const char* name : {"a.jsonl", "b.jsonl", "d.jsonl"}) {
      std::string lines;
      for (int i = 0; i < 9000; ++i) lines += nlohmann::json{{"text", test::random_text(gen, true)}}.dump() + "\n";
      write_bytes(folder / name, lines);
    }
    std::string text;
    for (int i = 0; i < 9000; ++i) text += test::random_text(gen, true);
    write_bytes(folder / "c.txt", text);
  }
};

std::map<std::string, std::string> content_of(const std::string& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    content[entry.path().filename().string()] = bytes_of(entry.path().string());
  return content;
}

// Runs in a child process that kills itself after `batches`; true when it came to its end before.
bool run_and_kill(TokenizeOptions options, int batches) {
  const pid_t child = ::fork();
  if (child == 0) {
    int n = 0;
    options.progress = [&](const TokenizeProgress& p) {
      if (std::string_view(p.phase) == "encoding" && ++n == batches) ::kill(::getpid(), SIGKILL);
    };
    try {
      tokenize(options);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

void expect_same_after_kills(const std::string& tokenizer, std::int64_t shard_tokens) {
  const Inputs inputs;
  TemporaryFolder out;
  TokenizeOptions options{.inputs = {inputs.folder.path()},
                          .out = out / "whole",
                          .tokenizer = tokenizer,
                          .validation_fraction = 0.1,
                          .shard_tokens = shard_tokens,
                          .jobs = 1,
                          .checkpoint_seconds = 0};
  const TokenizeResult whole = tokenize(options);
  EXPECT_EQ(whole.resumed_at, 0);
  options.out = out / "killed";
  options.jobs = 3;
  int kills = 0;
  for (int batches : {1, 2, 1}) kills += !run_and_kill(options, batches);
  EXPECT_EQ(kills, 3);
  EXPECT_FALSE(std::filesystem::exists(out / "killed/train-00000.bin"));
  EXPECT_TRUE(std::filesystem::exists(out / "killed/train-00000.bin.partial"));
  const TokenizeResult rest = tokenize(options);
  EXPECT_GT(rest.resumed_at, 0);
  EXPECT_EQ(rest.train.tokens, whole.train.tokens);
  EXPECT_EQ(rest.validation.text_bytes, whole.validation.text_bytes);
  const auto a = content_of(out / "whole"), b = content_of(out / "killed");
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, bytes] : a) EXPECT_TRUE(b.contains(name) && b.at(name) == bytes) << name;

  const auto manifest = nlohmann::json::parse(a.at("manifest.json"));
  EXPECT_EQ(manifest["complete"], true);
  EXPECT_EQ(manifest["tokens"], whole.train.tokens + whole.validation.tokens);
  EXPECT_EQ(manifest["inputs"].size(), 4u);
  ASSERT_EQ(manifest["train"]["shards"].size(), whole.train.shards.size());
  for (std::size_t i = 0; i < whole.train.shards.size(); ++i)
    EXPECT_EQ(manifest["train"]["shards"][i]["sha256"],
              nlohmann::json::parse(bytes_of(whole.train.shards[i] + ".json"))["sha256"]);
}

TEST(TokenizeResume, BytesAreTheSameAfterKills) { expect_same_after_kills("byte", 1'000'000); }
TEST(TokenizeResume, OneShardIsGoneOnWith) { expect_same_after_kills("byte", std::int64_t(1) << 30); }
TEST(TokenizeResume, BpeIsTheSameAfterKillsAndForEveryNumberOfJobs) {
  if (!bpe_is_available()) GTEST_SKIP() << "no Python with the module tokenizers";
  expect_same_after_kills("train:300", 700'000);
}

TEST(TokenizeResume, SentencePieceIsTheSameAfterKillsAndForEveryNumberOfJobs) {
  if (!test::sentencepiece_is_available())
    GTEST_SKIP() << "no Python with the modules sentencepiece and google.protobuf";
  TemporaryFolder models;
  test::make_sentencepiece_models(models);
  expect_same_after_kills(models / "unigram.model", 700'000);
}

TEST(TokenizeResume, OtherArgumentsAreRefused) {
  const Inputs inputs;
  TemporaryFolder out;
  const TokenizeOptions options{
      .inputs = {inputs.folder.path()}, .out = out / "o", .validation_fraction = 0.1, .checkpoint_seconds = 0};
  ASSERT_FALSE(run_and_kill(options, 2));
  const auto message = [&](auto change) {
    TokenizeOptions other = options;
    change(other);
    return error_of([&] { tokenize(other); });
  };
  EXPECT_HAS(message([](auto& o) { o.validation_fraction = 0.2; }), "validation_fraction was 0.1 and is now 0.2");
  EXPECT_HAS(message([](auto& o) { o.tokenizer = "train:300"; }), "tokenizer was \"byte\"");
  EXPECT_HAS(message([](auto& o) { o.allow_lossy = true; }), "allow_lossy was false and is now true");
  EXPECT_HAS(message([&](auto& o) { o.inputs = {inputs.folder / "a.jsonl"}; }), "were 4 files and are now 1");
  write_bytes(inputs.folder / "c.txt", "changed");
  EXPECT_HAS(message([](auto&) {}), "c.txt' was changed since");
  write_bytes(out / "o/manifest.json", "{}");
  EXPECT_HAS(message([](auto&) {}), "is no manifest");
}

TEST(TokenizeResume, AnErrorKeepsCompleteShardsOnly) {
  const Inputs inputs;
  TemporaryFolder out;
  TokenizeOptions options{.inputs = {inputs.folder.path()},
                          .out = out / "o",
                          .validation_fraction = 0,
                          .shard_tokens = std::int64_t(1) << 30,
                          .progress = [](const TokenizeProgress& p) {
                            if (p.documents > 10'000) fail("stopped");
                          }};
  EXPECT_HAS(error_of([&] { tokenize(options); }), "stopped");
  EXPECT_TRUE(std::filesystem::is_empty(out / "o"));
  options.shard_tokens = 100'000;
  EXPECT_HAS(error_of([&] { tokenize(options); }), "stopped");
  options.progress = {};
  EXPECT_GT(tokenize(options).resumed_at, 0);
}

TEST(TokenizeResume, AFolderIsOneProcessAtATime) {
  const Inputs inputs;
  TemporaryFolder out;
  std::filesystem::create_directory(out / "o");
  const TokenizeOptions options{.inputs = {inputs.folder.path()}, .out = out / "o", .validation_fraction = 0};
  {
    const WriteLock other(out / "o", "`mylos tokenize`");
    EXPECT_HAS(error_of([&] { tokenize(options); }), "another process does `mylos tokenize` into");
    EXPECT_TRUE(std::filesystem::is_empty(out / "o"));
  }
  EXPECT_GT(tokenize(options).train.tokens, 0);
}

// A limit on the size of files stands for a full disk.
TEST(TokenizeResume, AWriteThatFailsSaysWhy) {
  const Inputs inputs;
  TemporaryFolder out;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 100'000, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  errno = ENOENT;
  std::string error;
  try {
    tokenize({.inputs = {inputs.folder.path()}, .out = out / "o", .validation_fraction = 0});
  } catch (const Error& e) {
    error = e.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_HAS(error, "cannot write '" + (out / "o/train-00000.bin.partial': File too large"));
}

}  // namespace
}  // namespace mylos::data
