// Lion, SGD, Schedule-Free and Muon as ops: one step element by element, random bits by element, Newton-Schulz, wrong operands. Their
// twenty steps are in tests/optimizer.
#include <cmath>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "kernel_test.hpp"
#include "kernels/lion/lion.hpp"
#include "kernels/muon/muon.hpp"
#include "kernels/schedule_free/schedule_free.hpp"
#include "kernels/sgd/sgd.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

constexpr std::int64_t kN = 4099;  // a pack and a rest, on either path
constexpr k::FlatStep kFlat{.learning_rate = 1e-2f, .weight_decay = 0.1f, .step = 5, .seed = 3};

struct Inputs {
  HostTensor p = random_normal({kN}, test_seed()).rounded(DType::f32),
             g = random_normal({kN}, test_seed() + 1).rounded(DType::f32),
             m = random_normal({kN}, test_seed() + 2, 0.1).rounded(DType::f32);
};

void expect_near(const HostTensor& got, const HostTensor& want, double relative, double scale) {
  for (std::int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], relative * (std::fabs(want[i]) + scale)) << i;
}

TEST(Lion, OneStepIsRightElementByElement) {
  Stream stream;
  Inputs in;
  in.g[7] = in.m[7] = 0;  // sign(0) = 0
  const DeviceTensor p = to_device(stream, in.p, DType::f32), g = to_device(stream, in.g, DType::f32),
                     m = to_device(stream, in.m, DType::f32);
  k::lion(stream, {.flat = kFlat, .beta1 = 0.9, .beta2 = 0.99}, {g.tensor, {}, p.tensor, {}}, m.tensor);
  const HostTensor got = to_host(stream, p.tensor);
  for (std::int64_t i = 0; i < kN; ++i) {
    const double u = 0.9 * in.m[i] + 0.1 * in.g[i];
    if (u != 0 && std::fabs(u) < 1e-6) continue;  // its sign may be the rounding's
    ASSERT_NEAR(got[i], in.p[i] - 1e-2 * (double(u > 0) - double(u < 0) + 0.1 * in.p[i]),
                2e-7 * (std::fabs(in.p[i]) + 0.01))
        << i;
    in.m[i] = 0.99 * in.m[i] + 0.01 * in.g[i];
  }
  EXPECT_TRUE(close(to_host(stream, m.tensor), in.m, 1e-6));
}

TEST(Sgd, OneStepIsRightElementByElement) {
  Stream stream;
  for (const bool nesterov : {false, true}) {
    Inputs in;
    const DeviceTensor p = to_device(stream, in.p, DType::f32), g = to_device(stream, in.g, DType::f32),
                       m = to_device(stream, in.m, DType::f32);
    k::sgd(stream, {.flat = kFlat, .momentum = 0.9f, .nesterov = nesterov}, {g.tensor, {}, p.tensor, {}}, m.tensor);
    for (std::int64_t i = 0; i < kN; ++i) {
      in.m[i] = 0.9 * in.m[i] + in.g[i];
      in.p[i] -= 1e-2 * ((nesterov ? in.g[i] + 0.9 * in.m[i] : in.m[i]) + 0.1 * in.p[i]);
    }
    expect_near(to_host(stream, p.tensor), in.p, 2e-7, 0.05);
    expect_near(to_host(stream, m.tensor), in.m, 2e-7, 1.0);
  }
}

TEST(ScheduleFree, OneStepIsRightElementByElement) {
  Stream stream;
  Inputs in;
  HostTensor v = random_normal({kN}, test_seed() + 3), z = random_normal({kN}, test_seed() + 4).rounded(DType::f32);
  for (double& x : v.v) x = std::fabs(x) + 1e-3;
  v = v.rounded(DType::f32);
  const DeviceTensor p = to_device(stream, in.p, DType::f32), g = to_device(stream, in.g, DType::f32),
                     dz = to_device(stream, z, DType::f32), dv = to_device(stream, v, DType::f32),
                     sum = empty_device({1}, DType::f64), average = empty_device({1}, DType::f32);
  fill_zero(stream, sum.tensor);
  k::ScheduleFreeStep step{.flat = kFlat};
  k::schedule_free_average(stream, step, {}, sum.tensor, average.tensor);
  EXPECT_EQ(to_host(stream, average.tensor)[0], 1.0) << "the first step is all there is to average";
  k::schedule_free_average(stream, step, {}, sum.tensor, average.tensor);
  EXPECT_NEAR(to_host(stream, average.tensor)[0], 0.5, 1e-7);
  k::schedule_free(stream, step, {g.tensor, {}, p.tensor, {}}, average.tensor, dz.tensor, dv.tensor);
  const double lr = double(kFlat.learning_rate), gamma = lr * std::sqrt(1 - std::pow(0.999, 5)), c = 0.5, b = 0.9;
  HostTensor want = in.p, x = in.p;
  for (std::int64_t i = 0; i < kN; ++i) {
    const double before = (in.p[i] - (1 - b) * z[i]) / b;
    v[i] = 0.999 * v[i] + 0.001 * in.g[i] * in.g[i];
    z[i] -= gamma * (in.g[i] / (std::sqrt(v[i]) + 1e-8) + double(kFlat.weight_decay) * in.p[i]);
    x[i] = (1 - c) * before + c * z[i];
    want[i] = (1 - b) * z[i] + b * x[i];
  }
  expect_near(to_host(stream, p.tensor), want, 5e-7, 1.0);
  expect_near(to_host(stream, dz.tensor), z, 5e-7, 0.1);
  k::schedule_free_weights(stream, b, p.tensor, {}, dz.tensor, p.tensor);
  expect_near(to_host(stream, p.tensor), x, 1e-6, 1.0);
}

// Whole, a GPU takes packs; from the second element on, one element at a time.
TEST(Lion, PacksGiveWhatSingleElementsGive) {
  Stream stream;
  const Inputs in;
  for (const DType weights : {DType::f32, DType::bf16})
    for (const bool exact : {false, true})
      for (const DType gradient : {DType::f32, DType::bf16})
        for (const DType state : {DType::f32, DType::bf16}) {
          if (exact && weights == DType::f32) continue;
          SCOPED_TRACE(fmt::format("{}{}, gradient {}, m {}", name_of(weights), exact ? " and low" : "",
                                   name_of(gradient), name_of(state)));
          const auto train = [&](std::int64_t begin) {
            const DeviceTensor p = to_device(stream, in.p, weights), g = to_device(stream, in.g, gradient),
                               m = to_device(stream, in.m, state), low = empty_device({kN}, DType::u16);
            fill_zero(stream, low.tensor);
            k::FlatStep flat = kFlat;
            flat.first_index = 16 + std::uint64_t(begin);
            const auto cut = [&](const DeviceTensor& t) { return t.tensor.slice(0, begin, kN); };
            k::lion(stream, {.flat = flat}, {cut(g), {}, cut(p), exact ? cut(low) : Tensor{}}, cut(m));
            std::vector<std::uint16_t> halves(std::size_t(kN - begin));
            download(stream, cut(low), halves.data(), 2 * (kN - begin));
            return std::tuple{to_host(stream, cut(p)), to_host(stream, cut(m)), halves};
          };
          const auto [p, m, low] = train(0);
          const auto [p1, m1, low1] = train(1);
          for (std::int64_t i = 1; i < kN; ++i) {
            ASSERT_EQ(p1[i - 1], p[i]) << i;
            ASSERT_EQ(m1[i - 1], m[i]) << i;
            ASSERT_EQ(low1[std::size_t(i - 1)], low[std::size_t(i)]) << i;
          }
        }
}

TEST(Rules, RandomBitsBelongToTheElement) {
  Stream stream;
  const Inputs in;
  const auto train = [&](auto&& update, std::int64_t begin, std::int64_t end) {
    const DeviceTensor p = to_device(stream, in.p, DType::bf16), g = to_device(stream, in.g, DType::bf16),
                       m = to_device(stream, in.m, DType::bf16);
    k::FlatStep flat = kFlat;
    flat.first_index = 16 + std::uint64_t(begin);
    const auto cut = [&](const DeviceTensor& t) { return t.tensor.slice(0, begin, end); };
    update(flat, k::FlatOperands{cut(g), {}, cut(p), {}}, cut(m));
    return std::pair{to_host(stream, cut(p)), to_host(stream, cut(m))};
  };
  const auto lion = [&](const k::FlatStep& f, const k::FlatOperands& o, const Tensor& m) {
    k::lion(stream, {.flat = f}, o, m);
  };
  const auto sgd = [&](const k::FlatStep& f, const k::FlatOperands& o, const Tensor& m) {
    k::sgd(stream, {.flat = f}, o, m);
  };
  const auto same = [&](auto&& update) {
    const auto whole = train(update, 0, kN);
    for (const auto& [begin, end] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{8, 4096}, {3, 77}, {2049, kN}}) {
      const auto part = train(update, begin, end);
      for (std::int64_t i = begin; i < end; ++i) {
        ASSERT_EQ(part.first[i - begin], whole.first[i]) << i;
        ASSERT_EQ(part.second[i - begin], whole.second[i]) << i;
      }
    }
  };
  same(lion);
  same(sgd);
}

// X·Xᵀ of the smaller side.
double distance_from_identity(const HostTensor& x) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1], s = std::min(rows, columns);
  double squares = 0;
  for (std::int64_t i = 0; i < s; ++i)
    for (std::int64_t j = 0; j < s; ++j) {
      double sum = i == j ? -1.0 : 0.0;
      for (std::int64_t t = 0; t < std::max(rows, columns); ++t)
        sum += rows <= columns ? x.at(i, t) * x.at(j, t) : x.at(t, i) * x.at(t, j);
      squares += sum * sum;
    }
  return std::sqrt(squares / double(s));
}

TEST(Muon, NewtonSchulzMakesMatricesOrthogonal) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [rows, columns] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 192}, {160, 48}, {33, 97}, {1, 40}, {40, 1}}) {
      SCOPED_TRACE(fmt::format("{} [{}, {}]", name_of(dtype), rows, columns));
      const DeviceTensor x = to_device(stream, random_normal({rows, columns}, test_seed() + 5, 1e-5), dtype);
      const DeviceTensor workspace = empty_device({k::orthogonalize_workspace(1, rows, columns, dtype)}, DType::u8);
      k::orthogonalize(stream, x.tensor, 5, workspace.tensor);
      // All singular values lie between 0.68 and 1.13, their squares at most 0.54 from 1.
      EXPECT_LT(distance_from_identity(to_host(stream, x.tensor)), 0.54);
      fill_zero(stream, x.tensor);
      k::orthogonalize(stream, x.tensor, 5, workspace.tensor);
      for (const double v : to_host(stream, x.tensor).v) ASSERT_EQ(v, 0.0);
    }
}

TEST(Rules, WrongOperandsThrow) {
  Stream stream;
  const DeviceTensor f = empty_device({8}, DType::f32), b = empty_device({8}, DType::bf16),
                     low = empty_device({8}, DType::u16), longer = empty_device({9}, DType::f32),
                     c = empty_device({1}, DType::f32), work = empty_device({8}, DType::u8);
  const k::FlatOperands good{f.tensor, {}, f.tensor, {}};
  EXPECT_THROW(k::lion(stream, {.flat = kFlat}, good, longer.tensor), Error);
  EXPECT_THROW(k::lion(stream, {.flat = kFlat}, {f.tensor, {}, f.tensor, low.tensor}, f.tensor), Error)
      << "low beside f32";
  EXPECT_THROW(k::lion(stream, {.flat = kFlat, .beta2 = 1.0}, good, f.tensor), Error);
  EXPECT_THROW(k::sgd(stream, {.flat = {.learning_rate = NAN}}, good, f.tensor), Error);
  EXPECT_THROW(k::sgd(stream, {.flat = kFlat, .momentum = -0.1f}, good, f.tensor), Error);
  EXPECT_THROW(k::schedule_free(stream, {.flat = kFlat}, good, c.tensor, b.tensor, f.tensor), Error)
      << "z less exact than p";
  EXPECT_THROW(k::schedule_free(stream, {.flat = kFlat, .beta1 = 0}, good, c.tensor, f.tensor, f.tensor), Error);
  EXPECT_THROW(k::orthogonalize(stream, f.tensor, 5, work.tensor), Error) << "no matrix";
  EXPECT_THROW(k::orthogonalize(stream, f.tensor.reshape({2, 4}), 5, work.tensor), Error) << "too little workspace";
}

}  // namespace
}  // namespace mylos
