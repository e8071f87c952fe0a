// Tensor: a typed window on memory that somebody else owns (an Arena, a Buffer, a mapped file).
//
// Up to four dimensions, extents and strides in elements and 64-bit. The last dimension is always dense (stride 1); the
// others may be strided, so a head of a fused projection is a window too. A default-constructed Tensor is "none" and is
// false in a condition: optional operands are passed so. Copying a Tensor copies the window, never the data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/dtype.hpp"

namespace mylos {

class Tensor {
 public:
  static constexpr int kMaxRank = 4;

  Tensor() = default;
  // A dense window: row-major, no gaps.
  Tensor(void* data, DType dtype, std::span<const std::int64_t> extents);
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> extents);

  explicit operator bool() const { return rank_ > 0; }
  int rank() const { return rank_; }
  DType dtype() const { return dtype_; }
  std::int64_t extent(int dim) const { return extent_[std::size_t(dim < 0 ? dim + rank_ : dim)]; }
  std::int64_t stride(int dim) const { return stride_[std::size_t(dim < 0 ? dim + rank_ : dim)]; }
  std::span<const std::int64_t> shape() const { return {extent_.data(), std::size_t(rank_)}; }
  std::int64_t size() const;   // number of elements
  std::int64_t bytes() const;  // of a dense tensor of this size
  bool is_dense() const;

  void* data() const { return data_; }
  // The typed address; throws Error when T is not the tensor's dtype.
  template <class T>
  T* as() const {
    expect_dtype(dtype_v<T>);
    return static_cast<T*>(data_);
  }

  // [.., begin:end, ..] of one dimension.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;
  // The same elements under another shape; the tensor must be dense, or (for splitting) only the split dimension may be:
  // splitting the last dimension of a row-strided matrix [T, H*h] into [T, H, h] is allowed.
  Tensor reshape(std::initializer_list<std::int64_t> extents) const;
  // The same bytes read as another dtype of the same size.
  Tensor view_as(DType dtype) const;

  // "bf16[2, 4096, 4096]", for messages.
  std::string describe() const;

 private:
  void expect_dtype(DType wanted) const;

  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> extent_{};
  std::array<std::int64_t, kMaxRank> stride_{};
};

// Throws Error unless t is dtype[extents]; -1 matches any extent. `name` and `op` appear in the message.
void expect(const char* op, const char* name, const Tensor& t, DType dtype,
            std::initializer_list<std::int64_t> extents);
void expect_shape(const char* op, const char* name, const Tensor& t, std::initializer_list<std::int64_t> extents);
void expect_dense(const char* op, const char* name, const Tensor& t);

}  // namespace mylos
