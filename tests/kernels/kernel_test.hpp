// What the tests of several ops share: windows with gaps, windows that are not aligned, finite differences.
#pragma once

#include <cmath>
#include <functional>

#include "support/host_tensor.hpp"

namespace mylos::test {

// [rows, columns] inside [rows, columns + pad]; the rest stays NaN. offset 1 makes every address odd.
struct Window {
  DeviceTensor whole;
  Tensor tensor;

  Window(const Stream& stream, const HostTensor& values, DType dtype, std::int64_t offset, std::int64_t pad) {
    const std::int64_t rows = values.shape[0], columns = values.shape[1];
    HostTensor padded = zeros({rows, offset + columns + pad});
    for (double& x : padded.v) x = std::nan("");
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) padded.at(r, offset + c) = values.at(r, c);
    whole = to_device(stream, padded, dtype);
    tensor = whole.tensor.slice(1, offset, offset + columns);
  }

  // The window's values; fails when anything outside was written.
  HostTensor values(const Stream& stream) const {
    const HostTensor all = to_host(stream, whole.tensor);
    const std::int64_t offset =
        (static_cast<const char*>(tensor.data()) - static_cast<const char*>(whole.tensor.data())) /
        size_of(tensor.dtype());
    HostTensor inside = zeros({tensor.extent(0), tensor.extent(1)});
    for (std::int64_t r = 0; r < all.shape[0]; ++r)
      for (std::int64_t c = 0; c < all.shape[1]; ++c) {
        if (c >= offset && c < offset + inside.shape[1]) {
          inside.at(r, c - offset) = all.at(r, c);
        } else {
          EXPECT_TRUE(std::isnan(all.at(r, c))) << "written outside of the window at " << r << ", " << c;
        }
      }
    return inside;
  }
};

// A dense tensor that starts one element after an aligned address.
inline Tensor shifted(const DeviceTensor& whole, std::initializer_list<std::int64_t> shape) {
  return whole.tensor.slice(0, 1, whole.tensor.extent(0)).reshape(shape);
}

// Compares `gradient` with central differences of f in fp64 at a few elements of x.
inline void expect_gradient(const std::function<double(const HostTensor&)>& f, const HostTensor& x,
                            const HostTensor& gradient) {
  const double h = 1e-5;
  const std::int64_t step = std::max<std::int64_t>(1, x.size() / 23);
  for (std::int64_t i = 0; i < x.size(); i += step) {
    HostTensor up = x, down = x;
    up[i] += h;
    down[i] -= h;
    const double difference = (f(up) - f(down)) / (2 * h);
    EXPECT_NEAR(gradient[i], difference, 1e-6 * std::max(1.0, std::fabs(difference))) << "element " << i;
  }
}

inline double dot(const HostTensor& a, const HostTensor& b) {
  double s = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
  return s;
}

inline HostTensor plus(HostTensor a, const HostTensor& b) {
  for (std::int64_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace mylos::test
