#include "data/detokenize.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "data/python_tool.hpp"
#include "data/token_file.hpp"
#include "data/token_source.hpp"
#include "data/tokenizer.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kBlockTokens = std::int64_t(1) << 20;

}  // namespace

void detokenize(const DetokenizeOptions& options, const std::function<void(std::string_view)>& write) {
  const TokenFile file(options.file, options.format);
  check(options.first >= 0 && options.first <= file.size(), "--first {}: '{}' holds {} tokens", options.first,
        options.file, file.size());
  check(options.count >= -1, "--count {}: it must be -1 (to the end) or more", options.count);
  const std::string name = options.tokenizer.empty() ? tokenizer_of(file) : options.tokenizer;
  check(!name.empty(), "'{}' does not say which tokenizer made it: name one with --tokenizer", options.file);
  if ((name.ends_with(".json") || is_sentencepiece(name)) && std::filesystem::is_regular_file(name) &&
      !std::filesystem::exists(token_bytes_path(name)))
    run_tokenizer_tool({"table", name});
  const auto tokenizer = make_tokenizer(name);
  const std::int64_t left = file.size() - options.first;
  const std::int64_t end = options.first + (options.count < 0 ? left : std::min(options.count, left));
  // In the middle of a text the first token is not its first.
  std::int32_t before = -1;
  if (options.first > 0) file.read(options.first - 1, 1, tokenizer->vocab(), &before);
  std::vector<std::int32_t> tokens;
  for (std::int64_t at = options.first; at < end; at += std::int64_t(tokens.size())) {
    tokens.resize(std::size_t(std::min(kBlockTokens, end - at)));
    file.read(at, std::int64_t(tokens.size()), tokenizer->vocab(), tokens.data());
    write(tokenizer->decode(tokens, before));
    before = tokens.back();
  }
}

}  // namespace mylos::data
