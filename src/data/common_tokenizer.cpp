#include "data/common_tokenizer.hpp"

#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "data/file.hpp"
#include "data/token_source.hpp"

namespace mylos::data {
namespace {

std::string content_of(const std::string& tokenizer) {
  std::error_code error;
  const bool is_file = tokenizer != "byte" && std::filesystem::is_regular_file(tokenizer, error);
  return is_file ? sha256_of(tokenizer) : tokenizer;
}

}  // namespace

std::string common_tokenizer(const std::vector<const TokenSource*>& sources) {
  std::map<std::string, std::string> contents;  // of each name, so that a file is read once
  std::string name, from;
  bool all_say = true;
  for (const TokenSource* source : sources)
    for (const TokenFile& file : source->files()) {
      const std::string own = tokenizer_of(file);
      if (own.empty()) all_say = false;
      if (own.empty() || own == name) continue;
      if (name.empty()) {
        name = own;
        from = file.path();
        continue;
      }
      for (const std::string& n : {name, own})
        if (!contents.contains(n)) contents[n] = content_of(n);
      check(
          contents[own] == contents[name],
          "the tokens of '{}' are of tokenizer '{}', those of '{}' of '{}': a run reads those of one; tokenize again, "
          "or set data.tokenizer if they are the same",
          from, name, file.path(), own);
    }
  return all_say ? name : "";
}

}  // namespace mylos::data
