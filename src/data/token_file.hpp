// One token file, mapped read-only: raw little-endian `.bin` (dtype stated by the caller or its sidecar, never guessed
// from the size) or one-dimensional `.npy`.
//
// Opening checks size, header and sidecar against each other. Each read() asks the system for the file's size again: a
// file that was cut while it is mapped gives an Error instead of SIGBUS (but for a cut in the very microseconds of the
// copy); a file that was deleted stays readable, the mapping keeps it. Tokens are checked: an Error names file,
// position and value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "data/sidecar.hpp"
#include "tensor/dtype.hpp"

namespace mylos::data {

class TokenFile {
 public:
  // dtype: what the caller states; must agree with the sidecar and the .npy header where those exist.
  explicit TokenFile(std::string path, std::optional<DType> dtype = std::nullopt);
  ~TokenFile();
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&& other) noexcept;

  const std::string& path() const { return path_; }
  DType dtype() const { return dtype_; }
  std::int64_t size() const { return size_; }  // tokens
  const std::optional<Sidecar>& sidecar() const { return sidecar_; }

  // Tokens first .. first + count - 1 as i32. A token at or above `vocab` is an Error.
  void read(std::int64_t first, std::int64_t count, std::int64_t vocab, std::int32_t* out) const;

 private:
  void close() noexcept;

  std::string path_;
  DType dtype_ = DType::u16;
  std::int64_t size_ = 0;
  std::optional<Sidecar> sidecar_;
  int file_ = -1;
  const std::byte* map_ = nullptr;
  std::int64_t map_bytes_ = 0;
  std::int64_t data_begin_ = 0;
};

}  // namespace mylos::data
