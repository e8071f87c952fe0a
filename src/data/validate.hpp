// `mylos data validate FILE...`: every token of a file against the vocabulary, its header, index and sidecar against
// each other, at the speed of memory.
//
// A file that cannot be opened (damaged header, index or sidecar) throws Error; what is wrong with the tokens of one
// that can is listed. Also an Error: a file for which nobody knows a vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/token_file.hpp"

namespace mylos::data {

struct ValidateOptions {
  TokenFormat format = {};
  std::optional<std::int64_t> vocab = {};  // tokens must be below it and below the sidecar's
  int threads = 0;                         // 0: all cores
  bool sha256 = true;                      // compare it where the sidecar states it; slower than all the rest
};

struct Validation {
  std::string path;
  Container container = Container::raw;
  DType dtype = DType::u16;
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;       // of the tokens
  std::int64_t documents = -1;  // by the index, else end tokens counted; -1: not known
  std::int64_t vocab = 0;       // what tokens were held against
  std::int64_t largest = 0;
  bool sha256 = false;  // it was stated and compared
  double seconds = 0;
  std::vector<std::string> problems;  // empty: sound
};

Validation validate(const std::string& path, const ValidateOptions& options = {});
// One line, without its end.
std::string describe(const Validation& validation);

}  // namespace mylos::data
