// Batches of products against double precision: steps between matrices, strided rows, an addend elsewhere, what lies between them.
#include "kernels/matmul/batched.hpp"

#include "base/error.hpp"
#include "kernel_test.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

struct Layout {
  std::int64_t rows, columns, stride, step;  // of one matrix in a batch
  std::int64_t at(std::int64_t matrix, std::int64_t i, std::int64_t j) const { return matrix * step + i * stride + j; }
};

Tensor first_of(const DeviceTensor& t, const Layout& l) {
  return Tensor(t.tensor.data(), t.tensor.dtype(), {l.rows, l.stride}).slice(1, 0, l.columns);
}

TEST(MatmulBatched, EqualsDoublePrecisionAndTouchesNothingElse) {
  Stream stream;
  const DeviceTensor workspace = empty_device({k::matmul_workspace()}, DType::u8);
  constexpr std::int64_t kCount = 3, kM = 48, kN = 40, kL = 24;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (int transposes = 0; transposes < 4; ++transposes) {
      SCOPED_TRACE(fmt::format("{} transposes {}", name_of(dtype), transposes));
      const bool ta = transposes & 1, tb = transposes & 2;
      const Layout la{ta ? kL : kM, ta ? kM : kL, 56, 56 * 48}, lb{tb ? kN : kL, tb ? kL : kN, 48, 48 * 40},
          lc{kM, kN, 64, 64 * kM + 16}, lz{kM, kN, kN, kM * kN};
      const std::uint64_t seed = test_seed() + std::uint64_t(transposes) * 7;
      const HostTensor a = random_normal({kCount * la.step}, seed).rounded(dtype),
                       b = random_normal({kCount * lb.step}, seed + 1).rounded(dtype),
                       z = random_normal({kCount * lz.step}, seed + 2).rounded(dtype),
                       c0 = random_normal({kCount * lc.step}, seed + 3).rounded(dtype);
      const DeviceTensor da = to_device(stream, a, dtype), db = to_device(stream, b, dtype),
                         dz = to_device(stream, z, dtype), dc = to_device(stream, c0, dtype);
      k::matmul_batched(stream, first_of(da, la), first_of(db, lb),
                        {.a = ta ? k::Transpose::yes : k::Transpose::no,
                         .b = tb ? k::Transpose::yes : k::Transpose::no,
                         .alpha = 0.5f,
                         .beta = -2.0f,
                         .addend = first_of(dz, lz)},
                        {.count = kCount, .a = la.step, .b = lb.step, .c = lc.step, .z = lz.step}, workspace.tensor,
                        first_of(dc, lc));
      HostTensor want = c0;
      for (std::int64_t m = 0; m < kCount; ++m)
        for (std::int64_t i = 0; i < kM; ++i)
          for (std::int64_t j = 0; j < kN; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < kL; ++l)
              sum += a[ta ? la.at(m, l, i) : la.at(m, i, l)] * b[tb ? lb.at(m, j, l) : lb.at(m, l, j)];
            want[lc.at(m, i, j)] = 0.5 * sum - 2.0 * z[lz.at(m, i, j)];
          }
      const HostTensor got = to_host(stream, dc.tensor);
      EXPECT_TRUE(close(got, want, dtype == DType::bf16 ? 4e-3 : 1e-6, 1.0));
      for (std::int64_t m = 0; m < kCount; ++m)
        for (std::int64_t i = 0; i < kM; ++i)
          for (std::int64_t j = kN; j < lc.stride; ++j)
            ASSERT_EQ(got[lc.at(m, i, j)], c0[lc.at(m, i, j)]) << "between the rows";
    }
}

TEST(MatmulBatched, WrongBatchesThrow) {
  Stream stream;
  const DeviceTensor t = empty_device({4, 4}, DType::f32), workspace = empty_device({k::matmul_workspace()}, DType::u8);
  const auto run = [&](const k::Batch& batch, const k::MatmulOptions& options) {
    k::matmul_batched(stream, t.tensor, t.tensor, options, batch, workspace.tensor, t.tensor);
  };
  EXPECT_THROW(run({.count = 0}, {}), Error);
  EXPECT_THROW(run({.count = 2, .a = -4}, {}), Error);
  EXPECT_THROW(run({.count = 2}, {.provider = k::MatmulProvider::reference}), Error);
}

}  // namespace
}  // namespace mylos
