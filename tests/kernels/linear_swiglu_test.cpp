#include "kernels/linear_swiglu/linear_swiglu.hpp"

#include "base/error.hpp"
#include "kernel_test.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;
using k::LinearSwiglu;

struct Operands {
  HostTensor x, w;
  DeviceTensor dx, dw, gate_up, out, workspace;

  Operands(const Stream& stream, DType dtype, std::int64_t T, std::int64_t D, std::int64_t F, std::uint64_t seed)
      : x(random_normal({T, D}, seed).rounded(dtype)),
        w(random_normal({2 * F, D}, seed + 1, 1 / std::sqrt(double(D))).rounded(dtype)),
        dx(to_device(stream, x, dtype)),
        dw(to_device(stream, w, dtype)),
        gate_up(empty_device({T, 2 * F}, dtype)),
        out(empty_device({T, F}, dtype)),
        workspace(empty_device({k::matmul_workspace()}, DType::u8)) {}

  void run(const Stream& stream, LinearSwiglu how) const {
    k::linear_swiglu_forward(stream, dx.tensor, dw.tensor, workspace.tensor, gate_up.tensor, out.tensor, how);
  }
  bool fits() const { return k::can_fuse_swiglu(dx.tensor, dw.tensor, gate_up.tensor, out.tensor); }
};

HostTensor projections(const Operands& o) {
  HostTensor y = zeros({o.x.shape[0], o.w.shape[0]});
  for (std::int64_t t = 0; t < y.shape[0]; ++t)
    for (std::int64_t f = 0; f < y.shape[1]; ++f)
      for (std::int64_t d = 0; d < o.x.shape[1]; ++d) y.at(t, f) += o.x.at(t, d) * o.w.at(f, d);
  return y;
}

// Of the projections as they were stored.
HostTensor activation(const HostTensor& gate_up) {
  HostTensor y = zeros({gate_up.shape[0], gate_up.shape[1] / 2});
  for (std::int64_t t = 0; t < y.shape[0]; ++t)
    for (std::int64_t f = 0; f < y.shape[1]; ++f)
      y.at(t, f) = gate_up.at(t, f) / (1 + std::exp(-gate_up.at(t, f))) * gate_up.at(t, y.shape[1] + f);
  return y;
}

// Parts of a tile, tiles whose last columns are missing, several pairs of blocks.
TEST(LinearSwiglu, EqualsDoublePrecisionApartAndFused) {
  Stream stream;
  std::uint64_t seed = test_seed();
  int fused = 0;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [T, D, F] : std::vector<std::array<std::int64_t, 3>>{
             {1, 8, 8}, {3, 5, 7}, {130, 64, 128}, {261, 72, 136}, {517, 456, 264}, {40, 1000, 8}})
      for (const LinearSwiglu how : {LinearSwiglu::apart, LinearSwiglu::fused}) {
        SCOPED_TRACE(fmt::format("{} T {} D {} F {} how {}", name_of(dtype), T, D, F, int(how)));
        const Operands o(stream, dtype, T, D, F, ++seed);
        if (how == LinearSwiglu::fused) {
          if (!o.fits()) continue;
          ++fused;
        }
        o.run(stream, how);
        const HostTensor got = to_host(stream, o.gate_up.tensor);
        EXPECT_TRUE(close(got, projections(o), tolerance_of(dtype)));
        EXPECT_TRUE(close(to_host(stream, o.out.tensor), activation(got), tolerance_of(dtype)));
      }
  if (fused == 0) std::printf("nothing is fused in this build or on this device\n");
}

// dy, the down projection, what forward left, and the gradient.
struct Backward {
  HostTensor dy, w, gate_up;
  DeviceTensor d_dy, d_w, d_gate_up, dout, gradient, workspace;

  Backward(const Stream& stream, DType dtype, std::int64_t T, std::int64_t D, std::int64_t F, std::uint64_t seed)
      : dy(random_normal({T, D}, seed).rounded(dtype)),
        w(random_normal({D, F}, seed + 1, 1 / std::sqrt(double(D))).rounded(dtype)),
        gate_up(random_normal({T, 2 * F}, seed + 2, 2.0).rounded(dtype)),
        d_dy(to_device(stream, dy, dtype)),
        d_w(to_device(stream, w, dtype)),
        d_gate_up(to_device(stream, gate_up, dtype)),
        dout(empty_device({T, F}, dtype)),
        gradient(empty_device({T, 2 * F}, dtype)),
        workspace(empty_device({k::matmul_workspace()}, DType::u8)) {}

  bool fits() const { return k::can_fuse_swiglu_backward(d_dy.tensor, d_w.tensor, d_gate_up.tensor, gradient.tensor); }
  void run(const Stream& stream, LinearSwiglu how, const Tensor& into) const {
    k::linear_swiglu_backward(stream, d_dy.tensor, d_w.tensor, d_gate_up.tensor, workspace.tensor,
                              how == LinearSwiglu::apart ? dout.tensor : Tensor(), into, how);
  }
  HostTensor reference(DType dtype) const {
    const std::int64_t T = dy.shape[0], D = dy.shape[1], F = w.shape[1];
    HostTensor d = zeros({T, F}), g = zeros({T, 2 * F});
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t f = 0; f < F; ++f)
        for (std::int64_t i = 0; i < D; ++i) d.at(t, f) += dy.at(t, i) * w.at(i, f);
    d = d.rounded(dtype);
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t f = 0; f < F; ++f) {
        const double gate = gate_up.at(t, f), s = 1 / (1 + std::exp(-gate));
        g.at(t, f) = d.at(t, f) * gate_up.at(t, F + f) * (s + gate * s * (1 - s));
        g.at(t, F + f) = d.at(t, f) * gate * s;
      }
    return g;
  }
};

TEST(LinearSwiglu, BackwardEqualsDoublePrecisionApartAndFused) {
  Stream stream;
  std::uint64_t seed = test_seed() + 100;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [T, D, F] : std::vector<std::array<std::int64_t, 3>>{
             {1, 8, 8}, {3, 5, 7}, {130, 64, 256}, {261, 72, 264}, {517, 456, 520}, {40, 1000, 8}})
      for (const LinearSwiglu how : {LinearSwiglu::apart, LinearSwiglu::fused}) {
        SCOPED_TRACE(fmt::format("{} T {} D {} F {} how {}", name_of(dtype), T, D, F, int(how)));
        const Backward b(stream, dtype, T, D, F, ++seed);
        if (how == LinearSwiglu::fused && !b.fits()) continue;
        b.run(stream, how, b.gradient.tensor);
        EXPECT_TRUE(close(to_host(stream, b.gradient.tensor), b.reference(dtype), 2 * tolerance_of(dtype)));
        b.run(stream, how, b.d_gate_up.tensor);
        EXPECT_EQ(raw_bytes(stream, b.d_gate_up.tensor), raw_bytes(stream, b.gradient.tensor)) << "in place";
      }
}

TEST(LinearSwiglu, FusedGivesTheBitsOfSwiglu) {
  Stream stream;
  const Operands o(stream, DType::bf16, 1111, 512, 1032, test_seed() + 50);
  if (!o.fits()) GTEST_SKIP() << "nothing is fused in this build or on this device";
  o.run(stream, LinearSwiglu::fused);
  const std::vector<std::uint8_t> got = raw_bytes(stream, o.out.tensor);
  k::swiglu_forward(stream, o.gate_up.tensor, o.out.tensor);
  EXPECT_EQ(raw_bytes(stream, o.out.tensor), got);
}

TEST(LinearSwiglu, SaysWhatDoesNotFit) {
  Stream stream;
  const Operands o(stream, DType::bf16, 4, 8, 12, test_seed()), f32(stream, DType::f32, 4, 8, 8, test_seed());
  EXPECT_THROW(o.run(stream, LinearSwiglu::fused), Error);  // F is no multiple of 8
  EXPECT_THROW(f32.run(stream, LinearSwiglu::fused), Error);
  EXPECT_THROW(k::linear_swiglu_forward(stream, o.dx.tensor, o.dw.tensor, o.workspace.tensor, o.gate_up.tensor,
                                        f32.out.tensor, LinearSwiglu::apart),
               Error);
}

}  // namespace
}  // namespace mylos
