#include "tensor/tensor.hpp"

#include "base/error.hpp"

namespace mylos {
namespace {

std::string shape_text(std::span<const std::int64_t> extents) {
  std::string s = "[";
  for (std::size_t i = 0; i < extents.size(); ++i)
    s += (i ? ", " : "") + (extents[i] < 0 ? std::string("?") : std::to_string(extents[i]));
  return s + "]";
}

}  // namespace

Tensor::Tensor(void* data, DType dtype, std::span<const std::int64_t> extents) : data_(data), dtype_(dtype) {
  check(!extents.empty() && extents.size() <= kMaxRank, "a tensor has 1 to {} dimensions, not {}", kMaxRank,
        extents.size());
  rank_ = int(extents.size());
  std::int64_t stride = 1;
  for (int d = rank_ - 1; d >= 0; --d) {
    const std::int64_t n = extents[std::size_t(d)];
    check(n >= 0, "extent {} of shape {} is negative", d, shape_text(extents));
    extent_[std::size_t(d)] = n;
    stride_[std::size_t(d)] = stride;
    check(n == 0 || stride <= INT64_MAX / 16 / (n ? n : 1), "shape {} has too many elements", shape_text(extents));
    stride *= n ? n : 1;
  }
}

Tensor::Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> extents)
    : Tensor(data, dtype, std::span<const std::int64_t>(extents.begin(), extents.size())) {}

std::int64_t Tensor::size() const {
  if (rank_ == 0) return 0;
  std::int64_t n = 1;
  for (int d = 0; d < rank_; ++d) n *= extent_[std::size_t(d)];
  return n;
}

std::int64_t Tensor::bytes() const { return size() * size_of(dtype_); }

bool Tensor::is_dense() const {
  if (size() == 0) return true;  // nothing lies between nothing
  std::int64_t stride = 1;
  for (int d = rank_ - 1; d >= 0; --d) {
    if (extent_[std::size_t(d)] != 1 && stride_[std::size_t(d)] != stride) return false;
    stride *= extent_[std::size_t(d)];
  }
  return true;
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end) const {
  check(dim >= 0 && dim < rank_, "dimension {} of {} does not exist", dim, describe());
  const std::int64_t n = extent_[std::size_t(dim)];
  check(0 <= begin && begin <= end && end <= n, "slice {}:{} of dimension {} is outside {}", begin, end, dim,
        describe());
  Tensor r = *this;
  r.extent_[std::size_t(dim)] = end - begin;
  r.data_ = static_cast<std::byte*>(data_) + begin * stride_[std::size_t(dim)] * size_of(dtype_);
  return r;
}

Tensor Tensor::reshape(std::initializer_list<std::int64_t> extents) const {
  Tensor r(data_, dtype_, extents);
  check(r.size() == size(), "{} cannot be reshaped to {}", describe(), shape_text(r.shape()));
  if (is_dense()) return r;
  // Splitting the last dimension keeps the strides of those before it.
  check(r.rank_ > rank_, "{} is strided; only its last dimension can be split", describe());
  for (int d = 0; d < rank_ - 1; ++d) {
    check(r.extent(d) == extent(d), "{} is strided; only its last dimension can be split", describe());
    r.stride_[std::size_t(d)] = stride_[std::size_t(d)];
  }
  return r;
}

Tensor Tensor::view_as(DType dtype) const {
  check(size_of(dtype) == size_of(dtype_), "{} cannot be read as {}", describe(), name_of(dtype));
  Tensor r = *this;
  r.dtype_ = dtype;
  return r;
}

std::string Tensor::describe() const {
  if (rank_ == 0) return "none";
  return fmt::format("{}{}", name_of(dtype_), shape_text(shape()));
}

void Tensor::expect_dtype(DType wanted) const {
  check(rank_ > 0 && dtype_ == wanted, "{} was used as {}", describe(), name_of(wanted));
}

void expect_shape(const char* op, const char* name, const Tensor& t, std::initializer_list<std::int64_t> extents) {
  bool ok = std::size_t(t.rank()) == extents.size();
  for (int d = 0; ok && d < t.rank(); ++d) {
    const std::int64_t want = extents.begin()[d];
    ok = want < 0 || want == t.extent(d);
  }
  check(ok, "{}: {} is {}, expected shape {}", op, name, t.describe(),
        shape_text(std::span<const std::int64_t>(extents.begin(), extents.size())));
}

void expect(const char* op, const char* name, const Tensor& t, DType dtype,
            std::initializer_list<std::int64_t> extents) {
  expect_shape(op, name, t, extents);
  check(t.dtype() == dtype, "{}: {} is {}, expected dtype {}", op, name, t.describe(), name_of(dtype));
}

void expect_dense(const char* op, const char* name, const Tensor& t) {
  check(t.is_dense(), "{}: {} ({}) has gaps between its rows; this op needs a dense tensor", op, name, t.describe());
}

}  // namespace mylos
