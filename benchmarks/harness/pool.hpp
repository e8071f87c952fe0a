// Device memory that benchmark cases cut their operands from, filled with normal numbers: a GPU draws less power on zeros and runs faster.
//
// One Pool serves all cases, one after the other: reset() makes all of it free again. Operands lie at multiples of 256 bytes. Windows of
// floating-point dtypes hold copies of a block of 16 MiB of normal numbers from ever other places; read as f32 they are normal too.
// Error NoRoom when a case needs more than there is: such a case is skipped, with this message as the reason.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/error.hpp"
#include "tensor/runtime.hpp"

namespace mylos::bench {

class NoRoom : public Error {
 public:
  using Error::Error;
};

class Pool {
 public:
  explicit Pool(std::int64_t bytes);
  const Stream& stream() const { return stream_; }
  std::int64_t left() const { return buffer_.bytes() - used_; }
  std::int64_t footprint() const { return used_ + elsewhere_; }  // since the last reset()
  void reset();

  // Standard normal numbers; integers and bytes are whatever was there.
  Tensor take(DType dtype, std::initializer_list<std::int64_t> extents);
  Tensor normal(DType dtype, std::initializer_list<std::int64_t> extents, float std_dev);
  Tensor filled(DType dtype, std::initializer_list<std::int64_t> extents, double value);  // f32, bf16, i32
  Tensor integers(const std::vector<std::int32_t>& values);
  // A set's memory that is not the pool's: counts for how many sets it takes.
  void elsewhere(std::int64_t bytes) { elsewhere_ += bytes; }

 private:
  Tensor window(DType dtype, std::initializer_list<std::int64_t> extents);

  Stream stream_;
  Buffer block_, buffer_;
  std::int64_t used_ = 0, elsewhere_ = 0, from_ = 0;
};

// Throws NoRoom unless the device has so many bytes beside what buffers hold now.
void need_memory(std::int64_t bytes, const char* what);

}  // namespace mylos::bench
