// The sidecar `<shard>.json` says what a token file holds. Only "dtype" is required of files made elsewhere:
//
//   {"format": "mylos-tokens", "version": 1, "dtype": "u16", "tokens": 1000, "vocab": 257, "tokenizer": "byte",
//    "end_of_text": 256, "documents": 12, "text_bytes": 988, "sha256": "...", "container": "raw"}
//
// A wrong type, an impossible value or text that is no JSON throws Error naming `name`; no input crashes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.hpp"

namespace mylos::data {

// How a file holds its tokens; token_format.hpp says how it is found.
enum class Container { raw, npy, llmc, megatron };
std::string_view name_of(Container container);
Container container_named(std::string_view name);  // throws Error that lists the names

// -1 and empty: not stated.
struct Sidecar {
  DType dtype = DType::u16;  // u16 or u32
  std::int64_t tokens = -1;
  std::int64_t vocab = -1;        // every token is below it
  std::string tokenizer;          // "byte", or a tokenizer.json relative to the sidecar's folder
  std::int64_t end_of_text = -1;  // the token after each document
  std::int64_t documents = -1;
  std::int64_t text_bytes = -1;  // bytes of the text the tokens stand for, for bits per byte
  std::string sha256;            // of the token file, lower-case hex
  bool lossy = false;            // made by a tokenizer that does not give back every text
  std::optional<Container> container = {};
};

Sidecar parse_sidecar(std::string_view json, const std::string& name);
std::string write_sidecar(const Sidecar& sidecar);

std::string sidecar_path(const std::string& token_file);
// None when there is no such file.
std::optional<Sidecar> read_sidecar(const std::string& token_file);

}  // namespace mylos::data
