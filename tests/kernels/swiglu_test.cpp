#include "kernels/swiglu/swiglu.hpp"

#include "base/error.hpp"
#include "kernel_test.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

HostTensor reference_forward(const HostTensor& gate_up) {
  const std::int64_t t = gate_up.shape[0], f = gate_up.shape[1] / 2;
  HostTensor out = zeros({t, f});
  for (std::int64_t r = 0; r < t; ++r)
    for (std::int64_t c = 0; c < f; ++c)
      out.at(r, c) = gate_up.at(r, c) * sigmoid(gate_up.at(r, c)) * gate_up.at(r, f + c);
  return out;
}

HostTensor reference_backward(const HostTensor& gate_up, const HostTensor& dout) {
  const std::int64_t t = gate_up.shape[0], f = gate_up.shape[1] / 2;
  HostTensor d = zeros({t, 2 * f});
  for (std::int64_t r = 0; r < t; ++r)
    for (std::int64_t c = 0; c < f; ++c) {
      const double g = gate_up.at(r, c), s = sigmoid(g);
      d.at(r, c) = dout.at(r, c) * gate_up.at(r, f + c) * (s + g * s * (1 - s));
      d.at(r, f + c) = dout.at(r, c) * g * s;
    }
  return d;
}

TEST(Swiglu, ReferenceGradientMatchesFiniteDifferences) {
  const HostTensor x = random_normal({3, 10}, test_seed()), dout = random_normal({3, 5}, test_seed() + 1);
  expect_gradient([&](const HostTensor& at) { return dot(reference_forward(at), dout); }, x,
                  reference_backward(x, dout));
}

TEST(Swiglu, MatchesTheReference) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {3, 7}, {17, 8}, {5, 100}, {41, 344}, {2, 20000}, {3000, 8}}) {
      SCOPED_TRACE(fmt::format("{} [{}, {}]", name_of(dtype), rows, width));
      const HostTensor x = random_normal({rows, 2 * width}, test_seed() + 2, 3.0).rounded(dtype);
      const HostTensor dout = random_normal({rows, width}, test_seed() + 3).rounded(dtype);
      const DeviceTensor px = to_device(stream, x, dtype), pd = to_device(stream, dout, dtype);
      const DeviceTensor out = empty_device({rows, width}, dtype), dx = empty_device({rows, 2 * width}, dtype);
      k::swiglu_forward(stream, px.tensor, out.tensor);
      EXPECT_TRUE(close(to_host(stream, out.tensor), reference_forward(x), tolerance_of(dtype)));
      k::swiglu_backward(stream, px.tensor, pd.tensor, dx.tensor);
      EXPECT_TRUE(close(to_host(stream, dx.tensor), reference_backward(x, dout), tolerance_of(dtype)));
      k::swiglu_backward(stream, px.tensor, pd.tensor, px.tensor);
      EXPECT_EQ(raw_bytes(stream, px.tensor), raw_bytes(stream, dx.tensor)) << "in place";
    }
}

TEST(Swiglu, UnalignedRows) {
  Stream stream;
  const std::int64_t rows = 5, width = 16;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const HostTensor x = random_normal({rows * 2 * width + 1}, test_seed() + 4).rounded(dtype);
    HostTensor inner = zeros({rows, 2 * width});
    std::copy(x.v.begin() + 1, x.v.end(), inner.v.begin());
    const DeviceTensor px = to_device(stream, x, dtype), out = empty_device({rows, width}, dtype);
    k::swiglu_forward(stream, shifted(px, {rows, 2 * width}), out.tensor);
    EXPECT_TRUE(close(to_host(stream, out.tensor), reference_forward(inner), tolerance_of(dtype)));
  }
}

TEST(Swiglu, AccurateElementByElementOverTheWholeRange) {
  Stream stream;
  const std::int64_t n = 20001;
  HostTensor x = zeros({n, 2});
  for (std::int64_t i = 0; i < n; ++i) {
    x.at(i, 0) = -100.0 + 0.01 * double(i);
    x.at(i, 1) = 1.0;
  }
  x = x.rounded(DType::f32);
  const DeviceTensor px = to_device(stream, x, DType::f32), out = empty_device({n, 1}, DType::f32);
  k::swiglu_forward(stream, px.tensor, out.tensor);
  const HostTensor got = to_host(stream, out.tensor), want = reference_forward(x);
  for (std::int64_t i = 0; i < n; ++i)
    ASSERT_NEAR(got[i], want[i], 1e-6 * std::fabs(want[i]) + 1e-35) << "gate " << x.at(i, 0);
}

TEST(Swiglu, ExtremeGates) {
  Stream stream;
  HostTensor x = zeros({4, 2});
  x.v = {1e30, 1, -1e30, 1, std::nan(""), 1, INFINITY, 1};
  const DeviceTensor px = to_device(stream, x, DType::f32), out = empty_device({4, 1}, DType::f32);
  k::swiglu_forward(stream, px.tensor, out.tensor);
  const HostTensor y = to_host(stream, out.tensor);
  EXPECT_EQ(y[0], double(1e30f));
  EXPECT_NEAR(y[1], 0.0, 1e-6);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], INFINITY);
}

TEST(Swiglu, WrongShapesThrow) {
  Stream stream;
  const DeviceTensor x = empty_device({4, 6}, DType::f32), out = empty_device({4, 2}, DType::f32);
  EXPECT_THROW(k::swiglu_forward(stream, x.tensor, out.tensor), Error);
  EXPECT_THROW(k::swiglu_backward(stream, x.tensor, out.tensor, x.tensor), Error);
}

}  // namespace
}  // namespace mylos
