#include "data/tokenize.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/file.hpp"
#include "data/python_tool.hpp"
#include "data/shard_writer.hpp"
#include "data/token_source.hpp"
#include "data/tokenizer.hpp"

namespace mylos::data {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMaxDocumentBytes = std::int64_t(1) << 32;

std::vector<std::string> find_inputs(const TokenizeOptions& options) {
  check(!options.inputs.empty(), "nothing to tokenize: name files, globs or folders");
  std::vector<std::string> files;
  for (const std::string& input : options.inputs) {
    const std::size_t before = files.size();
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      for (std::string& file : expand_files({input})) files.push_back(std::move(file));
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(input)) {
      const std::string extension = entry.path().extension().string();
      if (entry.is_regular_file() && !entry.is_symlink() &&
          std::find(options.extensions.begin(), options.extensions.end(), extension) != options.extensions.end())
        files.push_back(entry.path().string());
    }
    check(files.size() > before, "folder '{}' holds no file ending in {}", input, fmt::join(options.extensions, ", "));
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

// Takes the files that are not UTF-8 out of `files` and returns them. The lines of .jsonl files are checked when they
// are parsed.
std::vector<std::string> take_invalid(std::vector<std::string>& files) {
  std::vector<std::string> invalid, valid;
  for (std::string& path : files) {
    const bool good = path.ends_with(".jsonl") || is_utf8(read_file(path, kMaxDocumentBytes));
    (good ? valid : invalid).push_back(std::move(path));
  }
  files = std::move(valid);
  return invalid;
}

// Every document of the inputs, in order.
template <class Use>
void for_each_document(const std::vector<std::string>& files, const std::string& field, Use&& use) {
  for (const std::string& path : files) {
    if (!path.ends_with(".jsonl")) {
      use(read_file(path, kMaxDocumentBytes));
      continue;
    }
    std::ifstream lines(path, std::ios::binary);
    check(lines.good(), "cannot read '{}'", path);
    std::string line;
    for (std::int64_t number = 1; std::getline(lines, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const auto json = nlohmann::json::parse(line, nullptr, false);
      check(json.is_object(), "{}:{}: not a JSON object", path, number);
      const auto text = json.find(field);
      check(text != json.end() && text->is_string(), "{}:{}: no text under \"{}\"; name the field with --jsonl-field",
            path, number, field);
      use(text->template get_ref<const std::string&>());
    }
    check(lines.eof(), "cannot read '{}' to its end", path);
  }
}

bool is_validation(std::int64_t document, double fraction) {
  return std::floor(double(document + 1) * fraction + 0.5) > std::floor(double(document) * fraction + 0.5);
}

void tokenize_bytes(const std::vector<std::string>& files, const TokenizeOptions& options, TokenizeResult& result) {
  Sidecar about;
  about.dtype = DType::u16;
  about.vocab = kByteVocab;
  about.tokenizer = "byte";
  about.end_of_text = kByteEndOfText;
  ShardWriter train(options.out, "train", about, options.shard_tokens),
      validation(options.out, "validation", about, options.shard_tokens);
  std::int64_t document = 0;
  std::vector<std::uint16_t> tokens;
  for_each_document(files, options.jsonl_field, [&](const std::string& text) {
    if (text.empty()) return;
    tokens.assign(text.size() + 1, std::uint16_t(kByteEndOfText));
    for (std::size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<unsigned char>(text[i]);
    (is_validation(document++, options.validation_fraction) ? validation : train)
        .add(tokens, std::int64_t(text.size()));
  });
  const auto side = [](ShardWriter& writer, TokenizeSplit& split) {
    split = {writer.finish(), writer.documents(), writer.tokens(), writer.text_bytes()};
  };
  check(document > 0, "the inputs hold no text");
  check(options.validation_fraction == 0 || validation.documents() > 0,
        "{} documents are too few for --validation-fraction {}: use at least {}, or 0 for no validation tokens",
        document, options.validation_fraction, 0.5 / double(document));
  check(train.documents() > 0,
        "--validation-fraction {} leaves no training document of {}: use 0 or give more documents",
        options.validation_fraction, document);
  side(train, result.train);
  side(validation, result.validation);
  result.tokenizer = "byte";
  result.vocab = kByteVocab;
}

TokenizeSplit split_of(const nlohmann::json& json) {
  return {json.at("shards").get<std::vector<std::string>>(), json.at("documents").get<std::int64_t>(),
          json.at("tokens").get<std::int64_t>(), json.at("text_bytes").get<std::int64_t>()};
}

void take_answer(const std::string& answer, TokenizeResult& result) {
  try {
    const auto json = nlohmann::json::parse(answer);
    result.train = split_of(json.at("train"));
    result.validation = split_of(json.at("validation"));
    result.vocab = json.at("vocab").get<std::int64_t>();
  } catch (const nlohmann::json::exception& e) {
    fail("tools/tokenizer.py encode answered with something else than its result: {}", e.what());
  }
}

void tokenize_bpe(const std::vector<std::string>& files, const TokenizeOptions& options, TokenizeResult& result) {
  std::string
      list;  // a list of files does not fit on every command line, so it goes by stdin, each name ended by a zero byte
  for (const std::string& file : files) list += file + '\0';
  const std::string tokenizer = (fs::path(options.out) / "tokenizer.json").string();
  if (options.tokenizer.starts_with("train:")) {
    const std::string_view size = std::string_view(options.tokenizer).substr(6);
    std::int64_t vocab = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), vocab);
    check(error == std::errc() && end == size.data() + size.size() && vocab >= kByteVocab && vocab <= 1 << 20,
          "tokenizer '{}': the vocabulary to train is from {} (all bytes and the end token) to {}", options.tokenizer,
          kByteVocab, 1 << 20);
    run_tokenizer_tool(
        {"train", "--vocab", std::to_string(vocab), "--jsonl-field", options.jsonl_field, "--validation-fraction",
         fmt::format("{}", options.validation_fraction), "--out", tokenizer, "--inputs-from-stdin"},
        list);
  } else {
    check(fs::is_regular_file(options.tokenizer),
          "tokenizer '{}' is neither \"byte\", \"train:V\", nor a tokenizer.json that exists", options.tokenizer);
    if (!fs::exists(tokenizer) || !fs::equivalent(options.tokenizer, tokenizer))
      fs::copy_file(options.tokenizer, tokenizer, fs::copy_options::overwrite_existing);
    run_tokenizer_tool({"table", tokenizer});
  }
  const std::string answer =
      run_tokenizer_tool({"encode", "--tokenizer", tokenizer, "--jsonl-field", options.jsonl_field,
                          "--validation-fraction", fmt::format("{}", options.validation_fraction), "--shard-tokens",
                          std::to_string(options.shard_tokens), "--out", options.out, "--inputs-from-stdin"},
                         list);
  take_answer(answer, result);
  result.tokenizer = tokenizer;
}

}  // namespace

TokenizeResult tokenize(const TokenizeOptions& options) {
  check(options.validation_fraction >= 0 && options.validation_fraction <= 0.5,
        "a validation fraction of {}; it must be from 0 to 0.5", options.validation_fraction);
  check(options.shard_tokens >= 1 && options.shard_tokens <= std::int64_t(1) << 40,
        "shards of {} tokens; from 1 to 2^40 are possible", options.shard_tokens);
  check(!options.out.empty(), "no folder to write to: name one with --out");
  std::vector<std::string> files = find_inputs(options);
  TokenizeResult result;
  if (options.skip_invalid) result.skipped = take_invalid(files);
  check(!files.empty(), "none of the {} inputs is UTF-8", result.skipped.size());
  std::error_code error;
  fs::create_directories(options.out, error);
  check(!error && fs::is_directory(options.out, error), "cannot make the folder '{}': {}; name another with --out",
        options.out, error ? error.message() : "it is a file");
  for (const auto& entry : fs::directory_iterator(options.out))
    check(entry.path().extension() != ".bin",
          "'{}' holds token shards already ('{}'): name another folder or remove them", options.out,
          entry.path().filename().string());
  if (options.tokenizer == "byte")
    tokenize_bytes(files, options, result);
  else
    tokenize_bpe(files, options, result);
  return result;
}

}  // namespace mylos::data
