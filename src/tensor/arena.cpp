#include "tensor/arena.hpp"

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"

namespace mylos {

Arena::Arena(std::int64_t bytes, const char* label) : buffer_(std::max<std::int64_t>(bytes, kAlignment), label) {}

Tensor Arena::take(DType dtype, std::initializer_list<std::int64_t> extents, const char* category) {
  Tensor t(nullptr, dtype, extents);
  const std::int64_t bytes = (t.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  check(used_ <= INT64_MAX - bytes, "{} ({}) brings the memory plan above 2^63 bytes; choose a smaller model or batch",
        t.describe(), category);
  check(measuring() || used_ + bytes <= buffer_.bytes(),
        "arena of {} bytes has {} left; {} ({}) does not fit: the memory plan was made for another layout",
        buffer_.bytes(), buffer_.bytes() - used_, t.describe(), category);
  if (!measuring()) t = Tensor(static_cast<std::byte*>(buffer_.data()) + used_, dtype, extents);
  taken_.push_back({used_, category, bytes});
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  std::int64_t& now = by_category_[category];
  now += bytes;
  std::int64_t& most = peak_by_category_[category];
  most = std::max(most, now);
  return t;
}

void Arena::rewind(std::int64_t mark) {
  check(0 <= mark && mark <= used_, "arena cannot rewind to {}: {} bytes are in use", mark, used_);
  while (!taken_.empty() && taken_.back().begin >= mark) {
    by_category_[taken_.back().category] -= taken_.back().bytes;
    taken_.pop_back();
  }
  used_ = mark;
}

}  // namespace mylos
