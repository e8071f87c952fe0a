// Whole small files, and the SHA-256 of files of any size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mylos::data {

// An Error when the file cannot be read or holds more than max_bytes.
std::string read_file(const std::string& path, std::int64_t max_bytes);
// Under a temporary name, then renamed: a reader sees the old file or the new one.
void write_file(const std::string& path, std::string_view content);

// Error "cannot write 'path': why", why being errno. check() would not do: the words of errno are one of its arguments, and
// may be made before the call that sets it.
void need_written(bool ok, const std::string& path);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void add(const void* bytes, std::size_t count);
  std::string hex();  // lower case; ends the sum

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Of a file of any size, read once; an Error when it cannot be read to its end.
std::string sha256_of(const std::string& path);

std::string hex_of(std::span<const unsigned char> bytes);

}  // namespace mylos::data
