#include "data/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace mylos::data {

MappedFile::MappedFile(std::string path, const char* what) : path_(std::move(path)), what_(what) {
  try {
    // Without O_NONBLOCK a pipe would be waited for.
    file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    check(file_ >= 0, "cannot open {} '{}': {}", what_, path_, std::strerror(errno));
    struct stat info {};
    const bool asked = ::fstat(file_, &info) == 0;
    check(asked, "cannot ask for the size of '{}': {}", path_, std::strerror(errno));
    check(S_ISREG(info.st_mode), "'{}' is not a file", path_);
    check(info.st_size > 0, "{} '{}' is empty; make it again, or remove it", what_, path_);
    void* map = ::mmap(nullptr, std::size_t(info.st_size), PROT_READ, MAP_SHARED, file_, 0);
    check(map != MAP_FAILED, "cannot map '{}' ({} bytes): {}", path_, info.st_size, std::strerror(errno));
    map_ = static_cast<const std::byte*>(map);
    size_ = info.st_size;
  } catch (...) {
    close();
    throw;
  }
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  what_ = other.what_;
  file_ = std::exchange(other.file_, -1);
  map_ = std::exchange(other.map_, nullptr);
  size_ = std::exchange(other.size_, 0);
  whole_at_ = other.whole_at_.exchange(kNever);
  return *this;
}

void MappedFile::close() noexcept {
  if (map_) ::munmap(const_cast<std::byte*>(map_), std::size_t(size_));
  if (file_ >= 0) ::close(file_);
  map_ = nullptr;
  file_ = -1;
}

void MappedFile::check_whole() const {
  struct stat info {};
  // Asked before each read: the text of an error is looked up only for one.
  if (::fstat(file_, &info) != 0) fail("{} '{}' can no longer be reached: {}", what_, path_, std::strerror(errno));
  check(info.st_size >= size_, "{} '{}' was cut while in use: {} bytes, {} when it was opened", what_, path_,
        info.st_size, size_);
}

void MappedFile::check_whole_lately() const {
  const std::int64_t now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (now - whole_at_.load(std::memory_order_relaxed) < kLately) return;
  check_whole();
  whole_at_.store(now, std::memory_order_relaxed);
}

}  // namespace mylos::data
