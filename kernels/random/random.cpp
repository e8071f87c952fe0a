#include "kernels/random/random.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"
#include "kernels/random/random_device.hpp"

namespace mylos::kernels {

void random_normal(const Stream& stream, std::uint64_t seed, std::uint64_t first_index, float std_dev,
                   const Tensor& t) {
  expect_float("random_normal", "t", t);
  expect_dense("random_normal", "t", t);
  check(std_dev >= 0.0f && std::isfinite(std_dev),
        "random_normal: the standard deviation is {}; it must be finite and at least 0", std_dev);
  device::random_normal(stream, seed, first_index, std_dev, t);
}

}  // namespace mylos::kernels
