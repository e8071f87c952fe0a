// The token shards of llm.c (github.com/karpathy/llm.c, dev/data/data_common.py): 256 little-endian i32, then the tokens.
//
//   word 0: magic 20240520 with word 1: version 1 = u16 tokens; 20240801 with version 7 = u32 tokens
//   word 2: number of tokens; the other words mean nothing
//
// Throws Error naming `name` for another magic or version, and for a count that the file's size does not bear out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/token_format.hpp"

namespace mylos::data {

// `bytes` is the file, or at least its first 1024 bytes; file_bytes the size of the whole file.
TokenLayout parse_llmc_header(std::span<const std::byte> bytes, std::int64_t file_bytes, const std::string& name);

// Magic, version, count and size all fit: no file of raw tokens looks so by chance.
bool begins_like_llmc(std::span<const std::byte> bytes, std::int64_t file_bytes);

}  // namespace mylos::data
