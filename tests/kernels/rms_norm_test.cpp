#include "kernels/rms_norm/rms_norm.hpp"

#include <array>

#include "base/error.hpp"
#include "kernel_test.hpp"
#include "kernels/elementwise/elementwise.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

constexpr float kEps = 1e-5f;

HostTensor reference_rstd(const HostTensor& x) {
  HostTensor rstd = zeros({x.shape[0]});
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    double s = 0;
    for (std::int64_t c = 0; c < x.shape[1]; ++c) s += x.at(r, c) * x.at(r, c);
    rstd[r] = 1 / std::sqrt(s / double(x.shape[1]) + double(kEps));
  }
  return rstd;
}

HostTensor reference_norm(const HostTensor& x, const HostTensor& w) {
  const HostTensor rstd = reference_rstd(x);
  HostTensor y = x;
  for (std::int64_t r = 0; r < x.shape[0]; ++r)
    for (std::int64_t c = 0; c < x.shape[1]; ++c) y.at(r, c) *= rstd[r] * w[c];
  return y;
}

struct Gradients {
  HostTensor dx, dw;
};
Gradients reference_gradients(const HostTensor& dy, const HostTensor& x, const HostTensor& w) {
  const HostTensor rstd = reference_rstd(x);
  const std::int64_t n = x.shape[0], d = x.shape[1];
  Gradients g{zeros({n, d}), zeros({d})};
  for (std::int64_t r = 0; r < n; ++r) {
    double mean = 0;
    for (std::int64_t c = 0; c < d; ++c) mean += dy.at(r, c) * w[c] * x.at(r, c) / double(d);
    for (std::int64_t c = 0; c < d; ++c) {
      g.dx.at(r, c) = rstd[r] * (dy.at(r, c) * w[c] - x.at(r, c) * rstd[r] * rstd[r] * mean);
      g.dw[c] += dy.at(r, c) * x.at(r, c) * rstd[r];
    }
  }
  return g;
}

struct Case {
  DType x, w, dw;
  std::int64_t rows, width;
};
std::vector<Case> cases() {
  const DType f = DType::f32, b = DType::bf16;
  std::vector<Case> all;
  for (auto [rows, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 5},    {3, 7},     {5, 64},     {131, 128}, {67, 96},   {1100, 264}, {9, 768},
           {9, 1000}, {3, 2048},  {411, 1536}, {3, 4096},  {1, 4096},  {149, 2048}, {141, 8192},
           {3, 4104}, {2, 16384}, {2, 1031},   {5, 8192},  {3, 12288}, {2, 20000},  {1, 40000}})
    for (auto [x, w, dw] : std::vector<std::tuple<DType, DType, DType>>{{f, f, f}, {b, b, f}, {b, f, f}, {b, b, b}})
      all.push_back({x, w, dw, rows, width});
  // Many rows for each team of a GPU, and not the same number for all.
  all.push_back({b, b, f, 2501, 1048});
  all.push_back({b, b, b, 1301, 4096});
  all.push_back({f, f, f, 1301, 516});
  std::erase_if(all, [](const Case& c) { return test::too_large(c.rows * c.width); });
  return all;
}

TEST(RmsNorm, ForwardAndApplyMatchTheReference) {
  Stream stream;
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("{} {} [{}, {}]", name_of(c.x), name_of(c.w), c.rows, c.width));
    const HostTensor x = random_normal({c.rows, c.width}, test_seed()).rounded(c.x);
    const HostTensor w = random_normal({c.width}, test_seed() + 1, 0.3, 1.0).rounded(c.w);
    const DeviceTensor dx = to_device(stream, x, c.x), dw = to_device(stream, w, c.w);
    const DeviceTensor y = empty_device({c.rows, c.width}, c.x), rstd = empty_device({c.rows}, DType::f32);
    k::rms_norm_forward(stream, dx.tensor, dw.tensor, kEps, y.tensor, rstd.tensor);
    EXPECT_TRUE(close(to_host(stream, y.tensor), reference_norm(x, w), tolerance_of(c.x)));
    EXPECT_TRUE(close(to_host(stream, rstd.tensor), reference_rstd(x), tolerance_of(DType::f32)));

    const DeviceTensor again = empty_device({c.rows, c.width}, c.x), without = empty_device({c.rows, c.width}, c.x);
    k::rms_norm_apply(stream, dx.tensor, dw.tensor, rstd.tensor, again.tensor);
    k::rms_norm_forward(stream, dx.tensor, dw.tensor, kEps, without.tensor, {});
    EXPECT_EQ(raw_bytes(stream, y.tensor), raw_bytes(stream, again.tensor));
    EXPECT_EQ(raw_bytes(stream, y.tensor), raw_bytes(stream, without.tensor));
    k::rms_norm_forward(stream, dx.tensor, dw.tensor, kEps, dx.tensor, {});
    EXPECT_EQ(raw_bytes(stream, y.tensor), raw_bytes(stream, dx.tensor)) << "in place";
  }
}

TEST(RmsNorm, FusedResidualEqualsAddThenNormToTheBit) {
  Stream stream;
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("{} {} [{}, {}]", name_of(c.x), name_of(c.w), c.rows, c.width));
    const HostTensor x = random_normal({c.rows, c.width}, test_seed() + 2),
                     residual = random_normal({c.rows, c.width}, test_seed() + 3);
    const DeviceTensor dx = to_device(stream, x, c.x), dr = to_device(stream, residual, c.x);
    const DeviceTensor w = to_device(stream, random_normal({c.width}, test_seed() + 4), c.w);
    const DeviceTensor sum = empty_device(x.shape, c.x), y = empty_device(x.shape, c.x),
                       rstd = empty_device({c.rows}, DType::f32);
    const DeviceTensor sum2 = empty_device(x.shape, c.x), y2 = empty_device(x.shape, c.x),
                       rstd2 = empty_device({c.rows}, DType::f32);
    k::residual_rms_norm_forward(stream, dx.tensor, dr.tensor, w.tensor, kEps, sum.tensor, y.tensor, rstd.tensor);
    k::add(stream, dx.tensor, dr.tensor, sum2.tensor);
    k::rms_norm_forward(stream, sum2.tensor, w.tensor, kEps, y2.tensor, rstd2.tensor);
    EXPECT_TRUE(close(to_host(stream, sum.tensor), plus(x.rounded(c.x), residual.rounded(c.x)).rounded(c.x), 0.0));
    EXPECT_EQ(raw_bytes(stream, sum.tensor), raw_bytes(stream, sum2.tensor));
    EXPECT_EQ(raw_bytes(stream, y.tensor), raw_bytes(stream, y2.tensor));
    EXPECT_EQ(raw_bytes(stream, rstd.tensor), raw_bytes(stream, rstd2.tensor));
    k::residual_rms_norm_forward(stream, dx.tensor, dr.tensor, w.tensor, kEps, dr.tensor, y2.tensor, rstd2.tensor);
    EXPECT_EQ(raw_bytes(stream, sum.tensor), raw_bytes(stream, dr.tensor)) << "sum in place of residual";
    EXPECT_EQ(raw_bytes(stream, y.tensor), raw_bytes(stream, y2.tensor));
  }
}

TEST(RmsNorm, ReferenceGradientsMatchFiniteDifferences) {
  const HostTensor x = random_normal({3, 17}, test_seed() + 5), w = random_normal({17}, test_seed() + 6);
  const HostTensor dy = random_normal({3, 17}, test_seed() + 7);
  const Gradients g = reference_gradients(dy, x, w);
  expect_gradient([&](const HostTensor& at) { return dot(reference_norm(at, w), dy); }, x, g.dx);
  expect_gradient([&](const HostTensor& at) { return dot(reference_norm(x, at), dy); }, w, g.dw);
}

TEST(RmsNorm, BackwardMatchesTheReference) {
  Stream stream;
  for (const Case& c : cases()) {
    for (const bool with_residual : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {} {} [{}, {}] residual {}", name_of(c.x), name_of(c.w), name_of(c.dw), c.rows,
                               c.width, with_residual));
      const HostTensor x = random_normal({c.rows, c.width}, test_seed() + 8).rounded(c.x);
      const HostTensor dy = random_normal({c.rows, c.width}, test_seed() + 9).rounded(c.x);
      const HostTensor dr = random_normal({c.rows, c.width}, test_seed() + 10).rounded(c.x);
      const HostTensor w = random_normal({c.width}, test_seed() + 11, 0.3, 1.0).rounded(c.w);
      const HostTensor dw0 = random_normal({c.width}, test_seed() + 12).rounded(c.dw);
      const DeviceTensor px = to_device(stream, x, c.x), pdy = to_device(stream, dy, c.x),
                         pw = to_device(stream, w, c.w);
      const DeviceTensor pdr = to_device(stream, dr, c.x), y = empty_device(x.shape, c.x),
                         rstd = empty_device({c.rows}, DType::f32);
      const DeviceTensor dx = empty_device(x.shape, c.x), dw = to_device(stream, dw0, c.dw),
                         dw_set = empty_device({c.width}, c.dw);
      const DeviceTensor work = empty_device({k::rms_norm_backward_workspace(c.rows, c.width)}, DType::u8);
      const Tensor dresidual = with_residual ? pdr.tensor : Tensor{};
      k::rms_norm_forward(stream, px.tensor, pw.tensor, kEps, y.tensor, rstd.tensor);
      k::rms_norm_backward(stream, pdy.tensor, px.tensor, pw.tensor, rstd.tensor, dresidual, true, work.tensor,
                           dx.tensor, dw.tensor);

      const Gradients g = reference_gradients(dy, x, w);
      EXPECT_TRUE(close(to_host(stream, dx.tensor), with_residual ? plus(g.dx, dr) : g.dx, tolerance_of(c.x)));
      EXPECT_TRUE(close(to_host(stream, dw.tensor), plus(g.dw, dw0), tolerance_of(c.dw)));

      const std::vector<std::uint8_t> first = raw_bytes(stream, dx.tensor);
      if (with_residual) {
        const DeviceTensor both = to_device(stream, dr, c.x);
        k::rms_norm_backward(stream, pdy.tensor, px.tensor, pw.tensor, rstd.tensor, both.tensor, false, work.tensor,
                             both.tensor, dw_set.tensor);
        EXPECT_EQ(first, raw_bytes(stream, both.tensor)) << "in place of dresidual";
      }
      const std::vector<std::uint8_t> first_dw = raw_bytes(stream, dw_set.tensor);
      k::rms_norm_backward(stream, pdy.tensor, px.tensor, pw.tensor, rstd.tensor, dresidual, false, work.tensor,
                           pdy.tensor, dw_set.tensor);
      EXPECT_EQ(first, raw_bytes(stream, pdy.tensor)) << "in place of dy, and the same bits in the second run";
      EXPECT_TRUE(close(to_host(stream, dw_set.tensor), g.dw, tolerance_of(c.dw)));
      if (with_residual) {
        EXPECT_EQ(first_dw, raw_bytes(stream, dw_set.tensor));
      }
    }
  }
}

TEST(RmsNorm, HeadsOfAFusedProjection) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [tokens, heads, size, offset] : std::vector<std::array<std::int64_t, 4>>{
             {5, 3, 64, 0}, {37, 4, 128, 0}, {2, 3, 10, 1}, {301, 2, 64, 1}, {9, 2, 2048, 0}}) {
      SCOPED_TRACE(fmt::format("{} [{}, {}, {}] at {}", name_of(dtype), tokens, heads, size, offset));
      const HostTensor x = random_normal({tokens, heads * size}, test_seed() + 13).rounded(dtype);
      const HostTensor dy = random_normal({tokens, heads * size}, test_seed() + 14).rounded(dtype);
      const HostTensor w = random_normal({size}, test_seed() + 15, 0.3, 1.0).rounded(dtype);
      const Window px(stream, x, dtype, offset, 32 - offset), pdy(stream, dy, dtype, offset, 64 - offset);
      const Window out(stream, zeros({tokens, heads * size}), dtype, offset, 96 - offset);
      const DeviceTensor pw = to_device(stream, w, dtype), rstd = empty_device({tokens * heads}, DType::f32);
      const DeviceTensor dw = empty_device({size}, DType::f32);
      const DeviceTensor work = empty_device({k::rms_norm_backward_workspace(tokens * heads, size)}, DType::u8);
      const auto by_head = [&](const Tensor& t) { return t.reshape({tokens, heads, size}); };
      HostTensor rows = x, drows = dy;
      rows.shape = drows.shape = {tokens * heads, size};

      k::rms_norm_forward(stream, by_head(px.tensor), pw.tensor, kEps, by_head(out.tensor), rstd.tensor);
      EXPECT_TRUE(close(out.values(stream), reference_norm(rows, w), tolerance_of(dtype)));
      k::rms_norm_backward(stream, by_head(pdy.tensor), by_head(px.tensor), pw.tensor, rstd.tensor, {}, false,
                           work.tensor, by_head(out.tensor), dw.tensor);
      const Gradients g = reference_gradients(drows, rows, w);
      EXPECT_TRUE(close(out.values(stream), g.dx, tolerance_of(dtype)));
      EXPECT_TRUE(close(to_host(stream, dw.tensor), g.dw, tolerance_of(DType::f32)));
    }
}

TEST(RmsNorm, WrongOperandsAreNamed) {
  Stream stream;
  const DeviceTensor x = empty_device({4, 8}, DType::bf16), w = empty_device({7}, DType::bf16),
                     y = empty_device({4, 8}, DType::bf16);
  const DeviceTensor w8 = empty_device({8}, DType::bf16), small = empty_device({16}, DType::u8),
                     rstd = empty_device({4}, DType::f32);
  EXPECT_THROW(k::rms_norm_forward(stream, x.tensor, w.tensor, kEps, y.tensor, {}), Error);
  EXPECT_THROW(k::rms_norm_forward(stream, x.tensor, w8.tensor, -1.0f, y.tensor, {}), Error);
  EXPECT_THROW(k::rms_norm_backward(stream, y.tensor, x.tensor, w8.tensor, rstd.tensor, {}, false, small.tensor,
                                    y.tensor, w8.tensor),
               Error);
}

}  // namespace
}  // namespace mylos
