#include "data/tokenizer.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "data/file.hpp"
#include "data/python_tool.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kMaxTableBytes = std::int64_t(1) << 28;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

class ByteTokenizer final : public Tokenizer {
 public:
  std::int64_t vocab() const override { return kByteVocab; }
  std::int32_t end_of_text() const override { return kByteEndOfText; }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(std::int32_t(static_cast<unsigned char>(c)));
    return tokens;
  }
  std::string decode(std::span<const std::int32_t> tokens, std::int32_t) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const std::int32_t t : tokens) {
      check(t >= 0 && t < kByteVocab, "token {} is not below {}, the vocabulary of the byte tokenizer", t, kByteVocab);
      if (t != kByteEndOfText) text += char(t);
    }
    return text;
  }
};

class TableTokenizer final : public Tokenizer {
 public:
  explicit TableTokenizer(std::string path) : path_(std::move(path)) {
    const std::string table = token_bytes_path(path_);
    check(std::filesystem::exists(table), "'{}' is missing: make it with `tools/tokenizer.py table {}`", table, path_);
    bytes_ = parse_token_bytes(read_file(table, kMaxTableBytes), table);
  }
  std::int64_t vocab() const override { return std::int64_t(bytes_.tokens.size()); }
  std::int32_t end_of_text() const override { return bytes_.end_of_text; }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    const std::string answer = run_tokenizer_tool({"encode-prompt", "--tokenizer", path_}, text);
    const auto json = nlohmann::json::parse(answer, nullptr, false);
    check(json.is_array(), "tools/tokenizer.py encode-prompt answered with no list of tokens");
    std::vector<std::int32_t> tokens;
    for (const auto& t : json) {
      check(t.is_number_unsigned() && t.get<std::uint64_t>() < std::uint64_t(vocab()),
            "'{}' made token {}, which '{}' does not hold", path_,
            t.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), token_bytes_path(path_));
      tokens.push_back(t.get<std::int32_t>());
    }
    return tokens;
  }
  std::string decode(std::span<const std::int32_t> tokens, std::int32_t before) const override {
    std::string text;
    bool begins = before < 0 || bytes_of(before).empty();
    for (const std::int32_t t : tokens) {
      std::string_view bytes = bytes_of(t);
      const bool prefixed = begins && bytes_.dummy_prefix && bytes.starts_with(' ');
      begins = bytes.empty();
      text += bytes.substr(prefixed ? 1 : 0);
    }
    return text;
  }
  std::string lossy() const override { return bytes_.lossy; }

 private:
  const std::string& bytes_of(std::int32_t token) const {
    check(token >= 0 && token < vocab(), "token {} is not below {}, the vocabulary of '{}'", token, vocab(), path_);
    return bytes_.tokens[std::size_t(token)];
  }

  std::string path_;
  TokenBytes bytes_;
};

}  // namespace

TokenBytes parse_token_bytes(std::string_view text, const std::string& name) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  check(json.is_object(), "{}: not a JSON object", name);
  const auto format = json.find("format"), version = json.find("version"), tokens = json.find("tokens"),
             end = json.find("end_of_text");
  check(format != json.end() && *format == "mylos-token-bytes", "{}: \"format\" is not \"mylos-token-bytes\"", name);
  check(version != json.end() && *version == 1, "{}: its version is not known to this build, which reads version 1",
        name);
  check(tokens != json.end() && tokens->is_array() && !tokens->empty(), "{}: \"tokens\" is not a list", name);
  TokenBytes table;
  table.tokens.reserve(tokens->size());
  for (const auto& token : *tokens) {
    check(token.is_string(), "{}: token {} is not a string", name, table.tokens.size());
    const std::string& hex = token.get_ref<const std::string&>();
    check(hex.size() % 2 == 0, "{}: token {} has an odd number of hexadecimal digits", name, table.tokens.size());
    std::string bytes(hex.size() / 2, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
      check(high >= 0 && low >= 0, "{}: token {} holds something else than hexadecimal digits 0-9a-f", name,
            table.tokens.size());
      bytes[i] = char(high << 4 | low);
    }
    table.tokens.push_back(std::move(bytes));
  }
  if (end != json.end() && !end->is_null()) {
    check(end->is_number_unsigned() && end->get<std::uint64_t>() < table.tokens.size(),
          "{}: \"end_of_text\" is {}, not one of its {} tokens", name,
          end->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), table.tokens.size());
    table.end_of_text = end->get<std::int32_t>();
  }
  if (const auto prefix = json.find("dummy_prefix"); prefix != json.end()) {
    check(prefix->is_boolean(), "{}: \"dummy_prefix\" is neither true nor false", name);
    table.dummy_prefix = prefix->get<bool>();
  }
  if (const auto lossy = json.find("lossy"); lossy != json.end()) {
    check(lossy->is_string(), "{}: \"lossy\" is not a string", name);
    table.lossy = lossy->get<std::string>();
  }
  return table;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  check((name.ends_with(".json") || is_sentencepiece(name)) && std::filesystem::is_regular_file(name),
        "tokenizer '{}' is neither \"byte\" nor the path of a tokenizer.json or of a SentencePiece .model", name);
  return std::make_unique<TableTokenizer>(name);
}

bool is_sentencepiece(std::string_view name) { return name.ends_with(".model"); }

std::string token_bytes_path(const std::string& tokenizer) {
  const std::string_view stem =
      std::string_view(tokenizer).substr(0, tokenizer.size() - (tokenizer.ends_with(".json") ? 5 : 0));
  return std::string(stem) + ".bytes.json";
}

}  // namespace mylos::data
