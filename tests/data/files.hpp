// Temporary folders and token files for the tests of the data layer.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "support/errors.hpp"

namespace mylos::test {

// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "mylos-data-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("cannot make a folder for a test");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::string write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

template <class T>
std::string write_tokens(const std::string& path, const std::vector<T>& tokens) {
  return write_bytes(path, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)});
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A .npy file as NumPy writes it: magic, version, header padded with spaces to a multiple of 64, newline, data.
inline std::string npy(std::string dictionary, std::string_view data, int version = 1) {
  const std::size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string file("\x93NUMPY", 6);
  file += char(version);
  file += '\0';
  for (std::size_t i = 0; i < prefix - 8; ++i) file += char(dictionary.size() >> 8 * i & 255);
  return file + dictionary + std::string(data);
}

#define EXPECT_HAS(text, part) \
  EXPECT_PRED2([](const std::string& t, const std::string& p) { return t.find(p) != t.npos; }, text, part)

}  // namespace mylos::test
