#include "benchmarks/harness/pool.hpp"

#include <algorithm>

#include "kernels/elementwise/elementwise.hpp"
#include "kernels/random/random.hpp"

namespace mylos::bench {
namespace {

constexpr std::int64_t kBlock = std::int64_t(16) << 20;
constexpr std::int64_t kSlip = 256 * 1021;  // windows begin in the block at ever other places

}  // namespace

Pool::Pool(std::int64_t bytes) : block_(kBlock, "normal numbers"), buffer_(bytes, "operands of benchmarks") {
  kernels::random_normal(stream_, 1, 0, 1.0f, Tensor(block_.data(), DType::bf16, {kBlock / 2}));
  stream_.fence();
}

void Pool::reset() { used_ = elsewhere_ = from_ = 0; }

Tensor Pool::window(DType dtype, std::initializer_list<std::int64_t> extents) {
  const Tensor t(static_cast<char*>(buffer_.data()) + used_, dtype, extents);
  if (t.bytes() > left())
    throw NoRoom(fmt::format("{} takes {} bytes; the pool of {} bytes has {} left (--pool)", t.describe(), t.bytes(),
                             buffer_.bytes(), left()),
                 __FILE__, __LINE__);
  used_ += std::min((t.bytes() + 255) / 256 * 256, left());
  return t;
}

Tensor Pool::take(DType dtype, std::initializer_list<std::int64_t> extents) {
  const Tensor t = window(dtype, extents);
  if (dtype != DType::bf16 && dtype != DType::f32) return t;
  from_ = (from_ + kSlip) % (kBlock / 2);
  const auto part = [](void* data, std::int64_t from, std::int64_t n) {
    return Tensor(static_cast<char*>(data) + from, DType::u8, {n});
  };
  for (std::int64_t at = 0; at < t.bytes();) {
    const std::int64_t n = std::min(t.bytes() - at, kBlock - from_);
    copy(stream_, part(block_.data(), from_, n), part(t.data(), at, n));
    at += n;
  }
  return t;
}

Tensor Pool::normal(DType dtype, std::initializer_list<std::int64_t> extents, float std_dev) {
  const Tensor t = window(dtype, extents);
  kernels::random_normal(stream_, 2 + std::uint64_t(used_), 0, std_dev, t);
  return t;
}

Tensor Pool::filled(DType dtype, std::initializer_list<std::int64_t> extents, double value) {
  const Tensor t = window(dtype, extents);
  kernels::fill(stream_, value, t);
  return t;
}

Tensor Pool::integers(const std::vector<std::int32_t>& values) {
  const Tensor t = window(DType::i32, {std::int64_t(values.size())});
  upload(stream_, values.data(), t.bytes(), t);
  return t;
}

void need_memory(std::int64_t bytes, const char* what) {
  const std::int64_t free = device_info().memory_bytes - device_memory().current_bytes;
  // A sixteenth is the driver's and the libraries'.
  if (bytes > free - device_info().memory_bytes / 16)
    throw NoRoom(
        fmt::format("{} takes {:.1f} GiB; the device has {:.1f} GiB left of {:.1f}", what, double(bytes) / 0x1p30,
                    double(free) / 0x1p30, double(device_info().memory_bytes) / 0x1p30),
        __FILE__, __LINE__);
}

}  // namespace mylos::bench
