#include "kernels/linear_swiglu/linear_swiglu.hpp"

#include "kernels/detail/checks.hpp"
#include "kernels/linear_swiglu/gated_tiles.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace mylos::kernels {
namespace {

void expect_matrix(const char* op, const char* name, const Tensor& t, DType dtype,
                   std::initializer_list<std::int64_t> shape) {
  expect(op, name, t, dtype, shape);
  expect_dense(op, name, t);
}

// What a layer of D and F takes: rows of `t` [T, D] and the two halves beside them.
void expect_layer(const char* op, const char* name, const Tensor& t, const Tensor& gate_up) {
  expect_float(op, name, t);
  expect_shape(op, name, t, {-1, -1});
  expect_dense(op, name, t);
  expect_shape(op, "gate_up", gate_up, {t.extent(0), -1});
  check(gate_up.extent(1) % 2 == 0, "{}: gate_up is {}; its rows have two halves, gate and up", op, gate_up.describe());
  expect_matrix(op, "gate_up", gate_up, t.dtype(), {t.extent(0), gate_up.extent(1)});
}

void expect_fusible(bool fits, const char* op, const Tensor& a, const Tensor& w) {
  check(fits,
        "{}: nothing fuses {} and w {} here: it needs a build with CUDA for Hopper, such a device, bf16, and D and F "
        "that are multiples of 8; "
        "use `apart`",
        op, a.describe(), w.describe());
}

}  // namespace

#if defined(MYLOS_TILES)
bool can_fuse_swiglu(const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out) {
  return device::gated_tiles_take(x, w, gate_up, out);
}
bool can_fuse_swiglu_backward(const Tensor& dy, const Tensor& w, const Tensor& gate_up, const Tensor& dgate_up) {
  return device::gradient_tiles_take(dy, w, gate_up, dgate_up);
}
bool has_fused_swiglu(DType dtype, std::int64_t D, std::int64_t F) {
  return detail::has_tiles() && fused_swiglu_takes(dtype, D, F);
}
#else
bool has_fused_swiglu(DType, std::int64_t, std::int64_t) { return false; }
bool can_fuse_swiglu(const Tensor&, const Tensor&, const Tensor&, const Tensor&) { return false; }
bool can_fuse_swiglu_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&) { return false; }
#endif

bool fused_swiglu_backward_pays(DType dtype, std::int64_t T, std::int64_t D, std::int64_t F) {
  return has_fused_swiglu(dtype, D, F) && 4 * detail::pairs_of_tiles(T, F) >= 3 * detail::kPairsAtOnce;
}

bool fused_swiglu_forward_pays(DType dtype, std::int64_t T, std::int64_t D, std::int64_t F) {
  constexpr double kShort = 0.2e-3 * 600e12;  // FLOPs
  return fused_swiglu_backward_pays(dtype, T, D, F) && 4.0 * double(T) * double(D) * double(F) < kShort;
}

void linear_swiglu_forward(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& workspace,
                           const Tensor& gate_up, const Tensor& out, LinearSwiglu how) {
  constexpr const char* kOp = "linear_swiglu_forward";
  expect_layer(kOp, "x", x, gate_up);
  expect_matrix(kOp, "w", w, x.dtype(), {gate_up.extent(1), x.extent(1)});
  expect_matrix(kOp, "out", out, x.dtype(), {x.extent(0), gate_up.extent(1) / 2});
  if (how == LinearSwiglu::apart) {
    linear_forward(stream, x, w, workspace, gate_up);
    swiglu_forward(stream, gate_up, out);
    return;
  }
  expect_fusible(can_fuse_swiglu(x, w, gate_up, out), kOp, x, w);
#if defined(MYLOS_TILES)
  device::gated_tiles(stream, x, w, gate_up, out);
#endif
}

void linear_swiglu_backward(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& gate_up,
                            const Tensor& workspace, const Tensor& dout, const Tensor& dgate_up, LinearSwiglu how) {
  constexpr const char* kOp = "linear_swiglu_backward";
  expect_layer(kOp, "dy", dy, gate_up);
  const std::int64_t T = dy.extent(0), F = gate_up.extent(1) / 2;
  expect_matrix(kOp, "w", w, dy.dtype(), {dy.extent(1), F});
  expect_matrix(kOp, "dgate_up", dgate_up, dy.dtype(), {T, 2 * F});
  if (how == LinearSwiglu::apart) {
    expect_matrix(kOp, "dout", dout, dy.dtype(), {T, F});
    linear_backward_input(stream, dy, w, false, workspace, dout);
    swiglu_backward(stream, gate_up, dout, dgate_up);
    return;
  }
  expect_fusible(can_fuse_swiglu_backward(dy, w, gate_up, dgate_up), kOp, dy, w);
#if defined(MYLOS_TILES)
  device::gradient_tiles(stream, dy, w, gate_up, dgate_up);
#endif
}

}  // namespace mylos::kernels
