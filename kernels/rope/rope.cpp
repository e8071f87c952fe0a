#include "kernels/rope/rope.hpp"

#include <cmath>

#include "kernels/detail/checks.hpp"
#include "kernels/rope/rope_device.hpp"

namespace mylos::kernels {

void rope_table(const Stream& stream, double theta, const Tensor& table) {
  expect("rope_table", "table", table, DType::f32, {-1, -1});
  expect_dense("rope_table", "table", table);
  check(table.extent(1) > 0 && table.extent(1) % 2 == 0, "rope_table: head size {} is not a positive even number",
        table.extent(1));
  check(theta > 0.0 && std::isfinite(theta), "rope_table: theta is {}; it must be finite and above 0", theta);
  device::rope_table(stream, theta, table);
}

void rope(const Stream& stream, RopeDirection direction, const Tensor& table, const Tensor& positions,
          const Tensor& x) {
  expect_float("rope", "x", x);
  expect_shape("rope", "x", x, {-1, -1, -1});
  expect("rope", "table", table, DType::f32, {-1, x.extent(2)});
  expect_dense("rope", "table", table);
  check(x.extent(2) % 2 == 0, "rope: head size {} is odd; the rotation pairs its halves", x.extent(2));
  expect("rope", "positions", positions, DType::i32, {x.extent(0)});
  device::rope(stream, direction == RopeDirection::backward, table, positions, x);
}

}  // namespace mylos::kernels
