#include "kernels/linear_swiglu/linear_swiglu.hpp"

#include "kernels/detail/checks.hpp"
#include "kernels/linear_swiglu/gated_tiles.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace mylos::kernels {
namespace {

constexpr const char* kOp = "linear_swiglu_forward";

void expect_operands(const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out) {
  expect_float(kOp, "out", out);
  expect_shape(kOp, "out", out, {-1, -1});
  const std::int64_t T = out.extent(0), F = out.extent(1);
  expect(kOp, "gate_up", gate_up, out.dtype(), {T, 2 * F});
  expect_shape(kOp, "x", x, {T, -1});
  expect(kOp, "x", x, out.dtype(), {T, x.extent(1)});
  expect(kOp, "w", w, out.dtype(), {2 * F, x.extent(1)});
  for (const auto& [name, t] : {std::pair{"out", out}, {"gate_up", gate_up}, {"x", x}, {"w", w}})
    expect_dense(kOp, name, t);
}

}  // namespace

bool can_fuse_swiglu([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& w,
                     [[maybe_unused]] const Tensor& gate_up, [[maybe_unused]] const Tensor& out) {
#if defined(MYLOS_TILES)
  return device::gated_tiles_take(x, w, gate_up, out);
#else
  return false;
#endif
}

void linear_swiglu_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& workspace,
                           const Tensor& gate_up, const Tensor& out, LinearSwiglu how) {
  expect_operands(x, w, gate_up, out);
  if (how == LinearSwiglu::fused) {
    check(can_fuse_swiglu(x, w, gate_up, out),
          "{}: nothing fuses x {} and w {} here: it needs a build with CUDA for Hopper, such a device, bf16, and D and "
          "F that are multiples of 8; "
          "use `apart`",
          kOp, x.describe(), w.describe());
#if defined(MYLOS_TILES)
    if (out.extent(0) > 0) device::gated_tiles(stream, x, w, gate_up, out);
#endif
    return;
  }
  linear_forward(stream, x, w, workspace, gate_up);
  swiglu_forward(stream, gate_up, out);
}

}  // namespace mylos::kernels
