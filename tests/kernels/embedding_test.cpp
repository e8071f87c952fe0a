#include "kernels/embedding/embedding.hpp"

#include <utility>

#include "base/error.hpp"
#include "kernel_test.hpp"

namespace mylos {
namespace {

using namespace test;
namespace k = kernels;

struct Case {
  std::int64_t tokens, vocabulary, width;
};
// Tokens that occur once, a few times and often; rows of one pack, of several a thread, of none, and wider than the teams that
// share a frequent token take at once; more tokens than a GPU team lists at a time, and more words than it counts in one.
const std::vector<Case> kCases{{1, 1, 1},      {7, 3, 5},        {100, 50, 64},    {513, 1000, 96}, {5000, 37, 24},
                               {33, 70000, 8}, {9, 4, 1031},     {300, 20, 520},   {2000, 400, 40}, {9000, 40000, 16},
                               {40, 30, 4096}, {40000, 9000, 8}, {50, 1100000, 1}, {200, 2, 8200}};

std::vector<std::int32_t> some_tokens(const Case& c) {
  std::vector<std::int32_t> tokens = random_ints(c.tokens, 0, std::int32_t(c.vocabulary), test_seed());
  // Half of them are the last word, as padding would be.
  for (std::size_t i = 0; i < tokens.size(); i += 2) tokens[i] = std::int32_t(c.vocabulary - 1);
  return tokens;
}

DeviceTensor grouped(const Stream& stream, const std::vector<std::int32_t>& tokens, std::int64_t vocabulary) {
  const std::int64_t n = std::int64_t(tokens.size());
  DeviceTensor groups = empty_device({k::embedding_group_bytes(n, vocabulary)}, DType::u8);
  k::embedding_group(stream, to_device(stream, tokens, {n}).tensor, vocabulary, groups.tensor);
  stream.fence();  // before the tokens go
  return groups;
}

TEST(Embedding, ForwardCopiesRows) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Case& c : kCases) {
      const std::vector<std::int32_t> tokens = some_tokens(c);
      const HostTensor table = random_normal({c.vocabulary, c.width}, test_seed() + 1).rounded(dtype);
      HostTensor want = zeros({c.tokens, c.width});
      for (std::int64_t t = 0; t < c.tokens; ++t)
        for (std::int64_t i = 0; i < c.width; ++i) want.at(t, i) = table.at(tokens[std::size_t(t)], i);
      const DeviceTensor out = empty_device(want.shape, dtype);
      k::embedding_forward(stream, to_device(stream, table, dtype).tensor, to_device(stream, tokens, {c.tokens}).tensor,
                           out.tensor);
      EXPECT_TRUE(close(to_host(stream, out.tensor), want, 0.0)) << name_of(dtype) << " " << c.tokens << " " << c.width;
    }
}

TEST(Embedding, BackwardAddsInTheOrderOfTheContract) {
  Stream stream;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const DType table_dtype : {DType::f32, DType::bf16})
      for (const Case& c : kCases) {
        SCOPED_TRACE(fmt::format("{} into {}: {} tokens, [{}, {}]", name_of(dtype), name_of(table_dtype), c.tokens,
                                 c.vocabulary, c.width));
        const std::vector<std::int32_t> tokens = some_tokens(c);
        const HostTensor dout = random_normal({c.tokens, c.width}, test_seed() + 2).rounded(dtype);
        const HostTensor before = random_normal({c.vocabulary, c.width}, test_seed() + 3).rounded(table_dtype);
        // The contract to the bit: fp32 additions in the order of t within blocks of 64 positions of a token, then of
        // the blocks' sums, then one addition to the table.
        std::vector<float> sums(std::size_t(c.vocabulary * c.width), 0.0f), block = sums;
        std::vector<std::int64_t> seen(std::size_t(c.vocabulary), 0);
        const auto end_block = [&](std::int64_t first) {
          for (std::int64_t i = first; i < first + c.width; ++i)
            sums[std::size_t(i)] += std::exchange(block[std::size_t(i)], 0.0f);
        };
        for (std::int64_t t = 0; t < c.tokens; ++t) {
          const std::int64_t v = tokens[std::size_t(t)];
          for (std::int64_t i = 0; i < c.width; ++i) block[std::size_t(v * c.width + i)] += float(dout.at(t, i));
          if (++seen[std::size_t(v)] % 64 == 0) end_block(v * c.width);
        }
        for (std::int64_t v = 0; v < c.vocabulary; ++v) end_block(v * c.width);
        HostTensor want = before;
        for (std::int64_t i = 0; i < want.size(); ++i) want[i] = double(float(want[i]) + sums[std::size_t(i)]);
        want = want.rounded(table_dtype);

        const DeviceTensor groups = grouped(stream, tokens, c.vocabulary), d = to_device(stream, dout, dtype);
        const DeviceTensor work = empty_device({k::embedding_backward_workspace(c.tokens, c.width)}, DType::u8);
        // The same groups serve every time.
        for (int time = 0; time < 2; ++time) {
          const DeviceTensor table = to_device(stream, before, table_dtype);
          k::embedding_backward(stream, groups.tensor, d.tensor, work.tensor, table.tensor);
          EXPECT_TRUE(close(to_host(stream, table.tensor), want, 0.0)) << "time " << time;
        }
      }
}

TEST(Embedding, BackwardIsTheGradientOfForward) {
  const std::vector<std::int32_t> tokens{2, 0, 2, 1, 2};
  const HostTensor table = random_normal({4, 3}, test_seed() + 4), dout = random_normal({5, 3}, test_seed() + 5);
  Stream stream;
  const DeviceTensor work = empty_device({k::embedding_backward_workspace(5, 3)}, DType::u8),
                     groups = grouped(stream, tokens, 4), dtable = to_device(stream, zeros({4, 3}), DType::f32);
  const HostTensor rounded = dout.rounded(DType::f32);
  k::embedding_backward(stream, groups.tensor, to_device(stream, dout, DType::f32).tensor, work.tensor, dtable.tensor);
  const auto f = [&](const HostTensor& at) {
    double s = 0;
    for (std::int64_t t = 0; t < 5; ++t)
      for (std::int64_t i = 0; i < 3; ++i) s += at.at(tokens[std::size_t(t)], i) * rounded.at(t, i);
    return s;
  };
  expect_gradient(f, table, to_host(stream, dtable.tensor));
}

TEST(Embedding, WrongOperandsThrow) {
  Stream stream;
  const DeviceTensor table = empty_device({4, 8}, DType::f32), ids = empty_device({3}, DType::i32),
                     out = empty_device({3, 7}, DType::f32);
  const DeviceTensor good = empty_device({3, 8}, DType::f32), small = empty_device({1}, DType::u8),
                     half = empty_device({3, 8}, DType::bf16);
  EXPECT_THROW(k::embedding_forward(stream, table.tensor, ids.tensor, out.tensor), Error);
  EXPECT_THROW(k::embedding_forward(stream, table.tensor, ids.tensor, half.tensor), Error);
  EXPECT_THROW(k::embedding_group(stream, ids.tensor, 4, small.tensor), Error);
  EXPECT_THROW(k::embedding_group(stream, ids.tensor, 0, small.tensor), Error);
  EXPECT_THROW(k::embedding_group(stream, table.tensor, 4, small.tensor), Error);
  EXPECT_THROW(k::embedding_group_bytes(-1, 4), Error);
  EXPECT_THROW(k::embedding_group_bytes(INT64_MAX, 4), Error);
  EXPECT_THROW(k::embedding_group_bytes(4, INT64_MAX), Error);
  const DeviceTensor groups = grouped(stream, {0, 3, 0}, 4),
                     work = empty_device({k::embedding_backward_workspace(3, 8)}, DType::u8);
  EXPECT_THROW(k::embedding_backward(stream, small.tensor, good.tensor, work.tensor, table.tensor), Error);
  EXPECT_THROW(k::embedding_backward(stream, {}, good.tensor, work.tensor, table.tensor), Error);
  EXPECT_THROW(k::embedding_backward(stream, groups.tensor, out.tensor, work.tensor, table.tensor), Error);
}

}  // namespace
}  // namespace mylos
