#include "kernels/batch/batch.hpp"

#include <tuple>

#include "base/error.hpp"
#include "kernel_test.hpp"
#include "random_batch.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

std::vector<std::int32_t> ints(const Stream& stream, const Tensor& t) {
  std::vector<std::int32_t> v(std::size_t(t.size()));
  download(stream, t, v.data(), t.bytes());
  return v;
}

class Batch : public ::testing::TestWithParam<std::tuple<DType, std::pair<std::int64_t, std::int64_t>, std::int64_t>> {
};

TEST_P(Batch, WidenedAsOneTokenAtATime) {
  const auto [dtype, shape, mean_length] = GetParam();
  const auto [rows, sequence] = shape;
  Stream stream;
  const data::HostBatch host = random_batch(rows, sequence, dtype, mean_length);
  const data::BatchBlock block = host.block();
  const DeviceTensor tokens = empty_device({rows, sequence + 1}, dtype),
                     begins = empty_device({rows, block.words()}, DType::u32),
                     ignored = empty_device({rows, block.words()}, DType::u32);
  upload(stream, host.tokens(0), tokens.tensor.bytes(), tokens.tensor);
  upload(stream, host.begins(0).data(), begins.tensor.bytes(), begins.tensor);
  upload(stream, host.ignored(0).data(), ignored.tensor.bytes(), ignored.tensor);
  const DeviceTensor to[4] = {empty_device({rows, sequence}, DType::i32), empty_device({rows, sequence}, DType::i32),
                              empty_device({rows, sequence}, DType::i32), empty_device({rows, sequence}, DType::i32)};
  k::widen_batch(stream, {tokens.tensor, begins.tensor, ignored.tensor}, to[0].tensor, to[1].tensor, to[2].tensor,
                 to[3].tensor);
  const data::WidenedBatch expected = data::widened(host);
  EXPECT_EQ(ints(stream, to[0].tensor), expected.tokens);
  EXPECT_EQ(ints(stream, to[1].tensor), expected.labels);
  EXPECT_EQ(ints(stream, to[2].tensor), expected.positions);
  EXPECT_EQ(ints(stream, to[3].tensor), expected.document_start);
}

// Mean length 100,000: hardly a boundary; 1: every token begins a document.
INSTANTIATE_TEST_SUITE_P(Shapes, Batch,
                         ::testing::Combine(::testing::Values(DType::u16, DType::u32),
                                            ::testing::Values(std::pair<std::int64_t, std::int64_t>{1, 1},
                                                              std::pair<std::int64_t, std::int64_t>{3, 7},
                                                              std::pair<std::int64_t, std::int64_t>{2, 31},
                                                              std::pair<std::int64_t, std::int64_t>{2, 32},
                                                              std::pair<std::int64_t, std::int64_t>{5, 1000},
                                                              std::pair<std::int64_t, std::int64_t>{2, 1024},
                                                              std::pair<std::int64_t, std::int64_t>{3, 8191},
                                                              std::pair<std::int64_t, std::int64_t>{2, 5000}),
                                            ::testing::Values(1, 3, 60, 700, 100000)));

TEST(BatchChecks, WrongShapesAreNamed) {
  Stream stream;
  const DeviceTensor tokens = empty_device({2, 9}, DType::u16), mask = empty_device({2, 1}, DType::u32),
                     out = empty_device({2, 8}, DType::i32), wrong = empty_device({2, 9}, DType::i32);
  const auto widen = [&](const Tensor& t, const Tensor& b, const Tensor& o) {
    k::widen_batch(stream, {t, b, mask.tensor}, out.tensor, o, out.tensor, out.tensor);
  };
  widen(tokens.tensor, mask.tensor, out.tensor);
  for (const auto& [t, b, o, name] : std::vector<std::tuple<Tensor, Tensor, Tensor, std::string>>{
           {wrong.tensor, mask.tensor, out.tensor, "packed.tokens"},
           {tokens.tensor, tokens.tensor, out.tensor, "packed.begins"},
           {tokens.tensor, mask.tensor, wrong.tensor, "labels"}}) {
    try {
      widen(t, b, o);
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace mylos
