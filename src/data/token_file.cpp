#include "data/token_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "data/npy.hpp"

namespace mylos::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and read as they lie");

// Returns the place of the first token at or above vocab, or count.
template <class T>
std::int64_t widen(const std::byte* from, std::int64_t count, std::int64_t vocab, std::int32_t* out) {
  // memcpy: the data of a .npy file begins at any multiple of its header's padding, of any length in files not made by
  // NumPy.
  T largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    T token;
    std::memcpy(&token, from + i * std::int64_t(sizeof(T)), sizeof(T));
    largest = std::max(largest, token);
    out[i] = std::int32_t(token);
  }
  if (count == 0 || std::int64_t(largest) < vocab) return count;
  for (std::int64_t i = 0; i < count; ++i)
    if (std::int64_t(std::uint32_t(out[i])) >= vocab) return i;
  return count;
}

}  // namespace

TokenFile::TokenFile(std::string path, std::optional<DType> dtype) : path_(std::move(path)) {
  check(!dtype || *dtype == DType::u16 || *dtype == DType::u32, "'{}': tokens are u16 or u32, not {}", path_,
        name_of(dtype.value_or(DType::u16)));
  try {
    file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    check(file_ >= 0, "cannot open token file '{}': {}", path_, std::strerror(errno));
    struct stat info {};
    check(::fstat(file_, &info) == 0, "cannot ask for the size of '{}': {}", path_, std::strerror(errno));
    check(S_ISREG(info.st_mode), "'{}' is not a file", path_);
    map_bytes_ = info.st_size;
    check(map_bytes_ > 0, "token file '{}' is empty", path_);
    void* map = ::mmap(nullptr, std::size_t(map_bytes_), PROT_READ, MAP_SHARED, file_, 0);
    check(map != MAP_FAILED, "cannot map '{}' ({} bytes): {}", path_, map_bytes_, std::strerror(errno));
    map_ = static_cast<const std::byte*>(map);
    sidecar_ = read_sidecar(path_);
    check(!dtype || !sidecar_ || *dtype == sidecar_->dtype, "'{}' is stated to be {}, but its sidecar says {}", path_,
          name_of(dtype.value_or(DType::u16)), name_of(sidecar_ ? sidecar_->dtype : DType::u16));

    if (path_.ends_with(".npy")) {
      const NpyHeader header = parse_npy_header({map_, std::size_t(map_bytes_)}, map_bytes_, path_);
      const DType stated = dtype ? *dtype : sidecar_ ? sidecar_->dtype : header.dtype;
      check(stated == header.dtype, "'{}' is stated to be {}, but its header says {}", path_, name_of(stated),
            name_of(header.dtype));
      dtype_ = header.dtype;
      size_ = header.count;
      data_begin_ = header.data_begin;
      check(size_ > 0, "token file '{}' holds no tokens", path_);
    } else {
      check(dtype || sidecar_,
            "'{}': raw tokens of unknown dtype; set data.dtype to \"u16\" or \"u32\", or write {{\"dtype\": \"u16\"}} "
            "into '{}'",
            path_, sidecar_path(path_));
      dtype_ = dtype ? *dtype : sidecar_->dtype;
      const std::int64_t width = size_of(dtype_);
      check(map_bytes_ % width == 0, "'{}': {} bytes are no whole number of {} tokens: cut off, or of another dtype",
            path_, map_bytes_, name_of(dtype_));
      size_ = map_bytes_ / width;
    }
    check(!sidecar_ || sidecar_->tokens == -1 || sidecar_->tokens == size_,
          "'{}' holds {} tokens, its sidecar says {}: cut off, or not its sidecar", path_, size_,
          sidecar_ ? sidecar_->tokens : -1);
  } catch (...) {
    close();
    throw;
  }
}

TokenFile::~TokenFile() { close(); }

TokenFile::TokenFile(TokenFile&& other) noexcept { *this = std::move(other); }

TokenFile& TokenFile::operator=(TokenFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  dtype_ = other.dtype_;
  size_ = std::exchange(other.size_, 0);
  sidecar_ = std::move(other.sidecar_);
  file_ = std::exchange(other.file_, -1);
  map_ = std::exchange(other.map_, nullptr);
  map_bytes_ = std::exchange(other.map_bytes_, 0);
  data_begin_ = other.data_begin_;
  return *this;
}

void TokenFile::close() noexcept {
  if (map_) ::munmap(const_cast<std::byte*>(map_), std::size_t(map_bytes_));
  if (file_ >= 0) ::close(file_);
  map_ = nullptr;
  file_ = -1;
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int64_t vocab, std::int32_t* out) const {
  check(first >= 0 && count >= 0 && first <= size_ && count <= size_ - first,
        "'{}': tokens {} to {} were asked for, it holds {}", path_, first, first + count, size_);
  struct stat info {};
  check(::fstat(file_, &info) == 0, "token file '{}' can no longer be reached: {}", path_, std::strerror(errno));
  check(info.st_size >= map_bytes_, "token file '{}' was cut while in use: {} bytes, {} when it was opened", path_,
        info.st_size, map_bytes_);
  const std::byte* from = map_ + data_begin_ + first * size_of(dtype_);
  const std::int64_t bad = dtype_ == DType::u16 ? widen<std::uint16_t>(from, count, vocab, out)
                                                : widen<std::uint32_t>(from, count, vocab, out);
  check(bad == count,
        "'{}': token {} at position {} is not below the vocabulary of {}: a file of another tokenizer or dtype ({}), "
        "or model.vocab is too small",
        path_, bad < count ? std::uint32_t(out[bad]) : 0, first + bad, vocab, name_of(dtype_));
}

}  // namespace mylos::data
