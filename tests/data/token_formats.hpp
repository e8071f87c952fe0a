// Bytes of llm.c shards and Megatron data sets, sound or with one field wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "data/files.hpp"

namespace mylos::test {

template <class T>
std::string llmc(const std::vector<T>& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = sizeof(T) == 2 ? 20240520 : 20240801;
  header[1] = sizeof(T) == 2 ? 1 : 7;
  header[2] = std::int32_t(tokens.size());
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  return bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T));
}

template <class T>
struct MegatronBytes {
  std::vector<T> tokens;
  std::vector<std::int32_t> sizes;
  std::vector<std::int64_t> documents;
  std::vector<std::int64_t> pointers = {};  // empty: those that fit the sizes
  std::uint8_t code = sizeof(T) == 2 ? 8 : 4;
  std::uint64_t version = 1;
  const char* magic = "MMIDIDX\0\0";  // 9 bytes

  std::string index() const {
    std::string bytes(magic, 9);
    const auto add = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    add(version);
    add(code);
    add(std::uint64_t(sizes.size()));
    add(std::uint64_t(documents.size()));
    for (const std::int32_t s : sizes) add(s);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      add(pointers.empty() ? at : pointers[i]);
      at += sizes[i] * std::int64_t(sizeof(T));
    }
    for (const std::int64_t d : documents) add(d);
    return bytes;
  }
  // <stem>.bin and <stem>.idx; returns the first.
  std::string write(const std::string& stem) const {
    write_bytes(stem + ".idx", index());
    return write_tokens(stem + ".bin", tokens);
  }
};

}  // namespace mylos::test
