#include <fmt/format.h>

#include <iostream>

#include "base/text.hpp"
#include "cli/commands.hpp"

namespace mylos::cli {

int tokenize(const data::TokenizeOptions& options) {
  const data::TokenizeResult result = data::tokenize(options);
  std::cout << fmt::format("tokenizer   {} ({} tokens)\n", result.tokenizer, result.vocab);
  for (const auto& [name, split] : {std::pair{"train", &result.train}, std::pair{"validation", &result.validation}}) {
    if (split->shards.empty()) continue;
    std::cout << fmt::format("{:<11} {} documents, {} tokens of {} text ({:.2f} bytes a token)\n", name,
                             split->documents, split->tokens, format_bytes(split->text_bytes),
                             double(split->text_bytes) / double(split->tokens));
    for (const std::string& shard : split->shards) std::cout << "            " << shard << '\n';
  }
  if (!result.skipped.empty())
    std::cout << fmt::format("left out    {} files that are not UTF-8\n", result.skipped.size());
  return kDone;
}

}  // namespace mylos::cli
