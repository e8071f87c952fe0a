// A whole file mapped read-only. A file that is cut while it is mapped kills its reader with SIGBUS: check_whole() asks
// the system for the size again and throws Error instead, to be called before each read (a cut in the microseconds
// between the two remains). A deleted file stays readable. An empty file, a folder or a pipe is an Error.
//
// The question takes as long as copying a kilobyte or two: check_whole_lately() takes an answer of the last millisecond for one, for readers that come
// back every microsecond.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mylos::data {

class MappedFile {
 public:
  MappedFile() = default;                                                  // none
  explicit MappedFile(std::string path, const char* what = "token file");  // what it is, for messages
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {map_, std::size_t(size_)}; }
  std::int64_t size() const { return size_; }
  void check_whole() const;
  void check_whole_lately() const;

 private:
  static constexpr std::int64_t kNever = -1'000'000'000, kLately = 1'000'000;  // ns

  void close() noexcept;

  std::string path_;
  const char* what_ = "";
  int file_ = -1;
  const std::byte* map_ = nullptr;
  std::int64_t size_ = 0;
  mutable std::atomic<std::int64_t> whole_at_{kNever};  // ns of the steady clock
};

}  // namespace mylos::data
