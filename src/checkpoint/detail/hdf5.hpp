// What the reading and the writing half of the store share: owned HDF5 identifiers, HDF5's reasons as text, types,
// hashing.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tensor/dtype.hpp"

namespace mylos::checkpoint::detail {

// Debian's HDF5 is not thread-safe: every call is made under this lock. It also switches off HDF5's own printing.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::lock_guard<std::recursive_mutex> guard_;
};

// The innermost and outermost reason on HDF5's error stack.
std::string hdf5_reason();

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& o) noexcept : id_(std::exchange(o.id_, -1)), close_(o.close_) {}
  Handle& operator=(Handle&& o) noexcept {
    reset();
    id_ = std::exchange(o.id_, -1);
    close_ = o.close_;
    return *this;
  }
  hid_t id() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  hid_t release() { return std::exchange(id_, -1); }  // whoever asks closes it
  void reset() {
    if (id_ >= 0) close_(id_);
    id_ = -1;
  }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// Lets go of a file that is thrown away. After a write that failed, on a full disk say, H5Fclose would free half of
// what HDF5 holds, so that the next file is taken for this one and the process crashes at exit: such a file stays open,
// but empty.
void abandon(Handle& file);

// The id, or an Error "<file>: cannot <action> '<object>' (<HDF5's reason>)".
hid_t need(hid_t id, const std::string& file, const char* action, std::string_view object,
           const char* at = __builtin_FILE(), int line = __builtin_LINE());
void need_ok(herr_t status, const std::string& file, const char* action, std::string_view object,
             const char* at = __builtin_FILE(), int line = __builtin_LINE());

// Little-endian type in the file; bf16 is u16 there.
hid_t file_type(DType dtype);
Handle string_type(std::size_t length);  // fixed length, UTF-8, padded with NUL

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(const void* data, std::size_t bytes);
  std::string hex();  // ends it

 private:
  void* context_;
};

// Elements of one step along the first dimension; 1 for scalars and vectors.
std::int64_t row_elements(const std::vector<std::int64_t>& shape);
// First-dimension rows that make a slice of about `bytes`.
std::int64_t rows_per_slice(const std::vector<std::int64_t>& shape, std::int64_t element_size, std::int64_t bytes);

inline constexpr std::int64_t kSliceBytes = 8 << 20;
inline constexpr std::int64_t kChunkBytes = 4 << 20;
inline constexpr std::size_t kMaxAttributeText = 32 << 10;

}  // namespace mylos::checkpoint::detail
