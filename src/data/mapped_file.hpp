// A whole file mapped read-only. A file that is cut while it is mapped kills its reader with SIGBUS: check_whole() asks
// the system for the size again and throws Error instead, to be called before each read (a cut in the microseconds
// between the two remains). A deleted file stays readable. An empty file, a folder or a pipe is an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mylos::data {

class MappedFile {
 public:
  MappedFile() = default;  // none
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {map_, std::size_t(size_)}; }
  std::int64_t size() const { return size_; }
  void check_whole() const;

 private:
  void close() noexcept;

  std::string path_;
  int file_ = -1;
  const std::byte* map_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace mylos::data
