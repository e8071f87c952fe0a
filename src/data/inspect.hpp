// `mylos data inspect FILE`: what a token file holds, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/token_file.hpp"

namespace mylos::data {

struct InspectOptions {
  TokenFormat format = {};     // what no sidecar, name or header says
  std::string tokenizer = {};  // to show text; empty: the sidecar's, if any
  std::int64_t first = 0;      // where the excerpt begins
  std::int64_t show = 64;      // tokens of the excerpt
};

struct TokenFileReport {
  std::string path;
  Container container = Container::raw;
  DType dtype = DType::u16;
  std::int64_t tokens = 0;
  std::int64_t smallest = 0, largest = 0;  // token values over the whole file
  std::int64_t distinct = 0;               // different values
  std::int64_t documents = -1;             // by the index, else end tokens counted; -1: not known
  std::optional<Sidecar> sidecar;
  std::string sha256;
  std::vector<std::string> problems;  // where the sidecar and the file disagree; empty: sound
  std::vector<std::int32_t> excerpt;
  std::string excerpt_text;  // empty without a tokenizer
};

TokenFileReport inspect(const std::string& path, const InspectOptions& options = {});
// For people, several lines; and as JSON.
std::string describe(const TokenFileReport& report);
std::string to_json(const TokenFileReport& report);

}  // namespace mylos::data
