// `mylos detokenize`: the text behind a token file, byte for byte.
//
// End tokens and other special tokens give no bytes, so documents follow each other as they did in the text. Works in
// blocks: memory does not grow with the file. A token outside the tokenizer's vocabulary is an Error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/token_format.hpp"

namespace mylos::data {

struct DetokenizeOptions {
  std::string file = {};
  TokenFormat format = {};     // of a file that has no sidecar
  std::string tokenizer = {};  // "byte", a tokenizer.json or a .model; empty: what the sidecar names
  std::int64_t first = 0;
  std::int64_t count = -1;  // -1: to the end
};

void detokenize(const DetokenizeOptions& options, const std::function<void(std::string_view)>& write);

}  // namespace mylos::data
