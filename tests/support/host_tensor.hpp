// Test tensors: device memory with a double-precision copy on the host.
//
//   Stream stream;
//   HostTensor x = random_normal({T, D}, seed);        // fp64 values
//   DeviceTensor d = to_device(stream, x, DType::bf16); // rounds to the storage type; x.rounded(dtype) gives the same on the host
//   ... run the op on d.tensor ...
//   HostTensor y = to_host(stream, d.tensor);
//   EXPECT_TRUE(close(y, reference, tolerance));        // ||y - ref|| / ||ref||, names the worst element, fails on NaN
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace mylos::test {

struct HostTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> v;

  std::int64_t size() const { return std::int64_t(v.size()); }
  double& operator[](std::int64_t i) { return v[std::size_t(i)]; }
  double operator[](std::int64_t i) const { return v[std::size_t(i)]; }
  double& at(std::int64_t i, std::int64_t j) { return v[std::size_t(i * shape[1] + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return v[std::size_t(i * shape[1] + j)]; }
  // Each value rounded to what dtype can hold.
  HostTensor rounded(DType dtype) const;
};

struct DeviceTensor {
  Buffer buffer;
  Tensor tensor;
};

// A seed that differs from run to run unless MYLOS_TEST_SEED is set; printed once so that a failure can be repeated.
std::uint64_t test_seed();
// Whether a case of so many elements is beyond MYLOS_TEST_MOST, and says so: a checker that follows each access of shared memory takes hours for it. Nothing is
// where that is not set.
bool too_large(std::int64_t elements);

HostTensor zeros(std::vector<std::int64_t> shape);
HostTensor random_normal(std::vector<std::int64_t> shape, std::uint64_t seed, double std_dev = 1.0, double mean = 0.0);
std::vector<std::int32_t> random_ints(std::int64_t n, std::int32_t low, std::int32_t high,
                                      std::uint64_t seed);  // [low, high)

DeviceTensor empty_device(const std::vector<std::int64_t>& shape,
                          DType dtype);  // filled with NaN (0xFF bytes), so unwritten elements show
DeviceTensor to_device(const Stream& stream, const HostTensor& h, DType dtype);
DeviceTensor to_device(const Stream& stream, const std::vector<std::int32_t>& v,
                       const std::vector<std::int64_t>& shape);
HostTensor to_host(const Stream& stream, const Tensor& t);  // any float or integer dtype; must be dense
std::vector<std::uint8_t> raw_bytes(const Stream& stream, const Tensor& t);

// ||got - want|| / ||want||; NaN if any element is. Elements below `scale` count as scale: where a value is a difference of
// terms of that size, it keeps the rounding of the terms however small it ends.
double relative_error(const HostTensor& got, const HostTensor& want, double scale = 0);
::testing::AssertionResult close(const HostTensor& got, const HostTensor& want, double tolerance, double scale = 0);

// The error that storage in dtype alone explains, times a small factor: 2e-6 for f32, 8e-3 for bf16.
double tolerance_of(DType dtype);

}  // namespace mylos::test
