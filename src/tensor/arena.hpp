// Arena: where tensors are laid out, and the memory plan at once.
//
// The same layout code runs twice: on a measuring Arena (no memory behind it), whose totals are the memory plan, and on
// one with memory, which therefore needs exactly what was planned. Every take() names a category; the table of categories
// is what `mylos plan` prints. Tensors are aligned to 256 bytes. mark()/rewind() give back what was taken since, so
// temporaries share memory; peak_bytes() is the high-water mark.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace mylos {

class Arena {
 public:
  static constexpr std::int64_t kAlignment = Buffer::kAlignment;

  Arena() = default;                             // measuring: tensors have a null address
  Arena(std::int64_t bytes, const char* label);  // with device memory of this size
  bool measuring() const { return buffer_.data() == nullptr; }

  // Throws Error when the memory is used up (a bug: the plan was for something else).
  Tensor take(DType dtype, std::initializer_list<std::int64_t> extents, const char* category);
  std::int64_t mark() const { return used_; }
  void rewind(std::int64_t mark);

  std::int64_t used_bytes() const { return used_; }
  std::int64_t peak_bytes() const { return peak_; }
  std::int64_t capacity_bytes() const { return buffer_.bytes(); }
  // Most bytes held at once by each category.
  const std::map<std::string, std::int64_t>& categories() const { return peak_by_category_; }

 private:
  struct Taken {
    std::int64_t begin;
    std::string category;
    std::int64_t bytes;
  };
  Buffer buffer_;
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
  std::vector<Taken> taken_;
  std::map<std::string, std::int64_t> by_category_, peak_by_category_;
};

}  // namespace mylos
