#include "data/corpus_tokenizer.hpp"

#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/error.hpp"
#include "base/usage.hpp"
#include "data/file.hpp"
#include "data/python_tool.hpp"
#include "data/tokenizer.hpp"

namespace mylos::data {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTrain = "train:";

std::int64_t vocab_to_train(const std::string& name) {
  const std::string_view size = std::string_view(name).substr(kTrain.size());
  std::int64_t vocab = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), vocab);
  if (error != std::errc() || end != size.data() + size.size() || vocab < kByteVocab || vocab > 1 << 20)
    usage_error("tokenizer '{}': the vocabulary to train is from {} (all bytes and the end token) to {}", name,
                kByteVocab, 1 << 20);
  return vocab;
}

void copy_tokenizer(const std::string& from, const std::string& to) {
  check(fs::is_regular_file(from),
        "tokenizer '{}' is neither \"byte\", \"train:V\", nor a tokenizer.json or SentencePiece .model that exists",
        from);
  run_tokenizer_tool(
      {"table", from, "--out", token_bytes_path(to)});  // of the file that the user knows: it may be damaged
  if (!fs::exists(to) || !fs::equivalent(from, to)) fs::copy_file(from, to, fs::copy_options::overwrite_existing);
}

}  // namespace

std::string prepare_tokenizer(const TokenizeOptions& options, bool going_on, CorpusManifest& manifest,
                              const std::function<void(std::int64_t, const std::string&)>& train) {
  const std::string& given = options.tokenizer;
  std::string name = "byte";
  if (given != "byte") {
    manifest.tokenizer = is_sentencepiece(given) ? "tokenizer.model" : "tokenizer.json";
    name = (fs::path(options.out) / manifest.tokenizer).string();
    if (going_on) {
      check(sha256_of(name) == manifest.tokenizer_sha256,
            "'{}' was changed since the run began: remove the folder '{}' and begin again", name, options.out);
      check(given.starts_with(kTrain) || sha256_of(given) == manifest.tokenizer_sha256,
            "tokenizer '{}' was changed since the unfinished run in '{}' began: remove the folder or give the same one",
            given, options.out);
    } else if (given.starts_with(kTrain)) {
      train(vocab_to_train(given), name);
    } else {
      copy_tokenizer(given, name);
    }
    manifest.tokenizer_sha256 = sha256_of(name);
  } else {
    manifest.tokenizer = name;
  }
  const auto tokenizer = make_tokenizer(name);
  manifest.vocab = tokenizer->vocab();
  manifest.end_of_text = tokenizer->end_of_text();
  manifest.lossy = tokenizer->lossy();
  check(manifest.end_of_text >= 0, "'{}' has no token that ends a text", given);
  check(manifest.lossy.empty() || options.allow_lossy,
        "tokenizer '{}' does not give back every text: {}. Choose another, or take it as it is with --allow-lossy",
        given, manifest.lossy);
  return name;
}

}  // namespace mylos::data
