#include "data/host_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::test_seed;

TEST(HostBatch, CountsWhatItsLabelsAndDocumentsAre) {
  std::mt19937_64 random(test_seed());
  HostBatch b;
  for (const std::int64_t s : {1, 2, 30, 31, 32, 33, 63, 64, 65, 500}) {
    const std::int64_t rows = 1 + std::int64_t(random() % 4);
    b.prepare(rows, s, random() % 2 == 0 ? DType::u16 : DType::u32);
    for (std::int64_t r = 0; r < rows; ++r) {
      set_bits(b.ignored(r), 0, s + 1, false);
      for (std::int64_t t = 0; t <= s; ++t) {
        if (random() % 7 == 0) set_bit(b.begins(r), t);
        if (random() % 5 == 0) set_bit(b.ignored(r), t);
      }
    }
    b.count();
    const WidenedBatch w = widened(b);
    EXPECT_EQ(b.valid_tokens, std::count_if(w.labels.begin(), w.labels.end(), [](std::int32_t l) { return l >= 0; }));
    std::vector<std::int32_t> lengths;
    for (const std::int32_t p : w.positions) {
      if (p == 0) lengths.push_back(0);
      lengths.back() += 1;
    }
    EXPECT_EQ(b.document_lengths, lengths);
    std::int64_t labels = 0;
    for (const std::int32_t n : b.row_labels) labels += n;
    EXPECT_EQ(labels, b.valid_tokens);
  }
}

TEST(HostBatch, IsEmptyWhenPreparedWhateverItHeldBefore) {
  HostBatch b;
  for (int use = 0; use < 3; ++use) {
    b.prepare(3 - use, 40, DType::u16);
    b.count();
    EXPECT_EQ(b.valid_tokens, 0);
    EXPECT_EQ(b.document_lengths, std::vector<std::int32_t>(std::size_t(b.batch), 40));
    for (const std::int32_t t : widened(b).tokens) EXPECT_EQ(t, 0);
    for (const std::int32_t s : b.sources) EXPECT_EQ(s, -1);
    set_bits(b.begins(0), 0, 41);
    std::fill_n(b.tokens(0), 82, std::byte(7));
  }
  EXPECT_THROW(b.prepare(0, 4, DType::u16), Error);
  EXPECT_THROW(b.prepare(1, 0, DType::u16), Error);
  EXPECT_THROW(b.prepare(1, 4, DType::i32), Error);
}

TEST(HostBatch, BitsOfARangeAreSetAndCleared) {
  std::mt19937_64 random(test_seed() + 1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::uint32_t> mask(5);
    for (auto& m : mask) m = std::uint32_t(random());
    const auto before = mask;
    const std::int64_t first = std::int64_t(random() % 161),
                       end = first + std::int64_t(random() % std::uint64_t(161 - first));
    const bool value = random() % 2 == 0;
    set_bits(mask, first, end, value);
    for (std::int64_t t = 0; t < 160; ++t)
      EXPECT_EQ(bit(mask, t), t >= first && t < end ? value : bit(before, t)) << first << " " << end << " " << t;
  }
}

}  // namespace
}  // namespace mylos::data
