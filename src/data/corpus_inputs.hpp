// The files that `mylos tokenize` reads, and what tells whether they are still the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mylos::data {

// Files, globs, and folders searched for `extensions` (each also with .gz and .zst after it); sorted, each once. An Error
// when there is none.
std::vector<std::string> find_inputs(const std::vector<std::string>& inputs,
                                     const std::vector<std::string>& extensions);

// Takes the files that are not UTF-8 out of `files` and returns them. Lines of .jsonl files are checked when they are
// parsed.
std::vector<std::string> take_invalid(std::vector<std::string>& files);

struct InputFile {
  std::string path;
  std::int64_t bytes = 0, modified_ns = 0;
  bool operator==(const InputFile&) const = default;
};
std::vector<InputFile> describe_inputs(const std::vector<std::string>& files);

}  // namespace mylos::data
