#include "data/samples.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "data/files.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::test_seed;
using test::write_tokens;

// Token i of the source is i, so that a batch shows where it came from.
std::vector<std::uint32_t> count_up(std::int64_t first, std::int64_t n) {
  std::vector<std::uint32_t> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(std::uint32_t(first + i));
  return v;
}

TEST(Samples, LabelsAreTheNextTokensAndEachIsPredictedOnce) {
  TemporaryFolder folder;
  const std::int64_t n = 1000, s = 37;
  write_tokens(folder / "a.bin", count_up(0, 411));
  write_tokens(folder / "b.bin", count_up(411, 1));
  write_tokens(folder / "c.bin", count_up(412, n - 412));
  const TokenSource source({folder / "*.bin"}, {DType::u32}, n);
  ASSERT_EQ(source.size(), n);
  const SampleSet samples(source, {s, true, test_seed(), -1});
  ASSERT_EQ(samples.count(), (n - 1) / s);
  std::vector<int> predicted(std::size_t(n), 0);
  HostBatch b;
  for (std::int64_t j = 0; j < samples.count(); ++j) {
    samples.prepare(b, 1);
    samples.fill(b, 0, samples.sample_at(j));
    EXPECT_EQ(b.valid_tokens, s);
    for (std::size_t t = 0; t < std::size_t(s); ++t) {
      EXPECT_EQ(b.labels[t], b.tokens[t] + 1);
      EXPECT_EQ(b.positions[t], std::int32_t(t));
      EXPECT_EQ(b.document_start[t], 0);
      ++predicted[std::size_t(b.labels[t])];
    }
  }
  for (std::int64_t i = 1; i <= samples.count() * s; ++i) EXPECT_EQ(predicted[std::size_t(i)], 1) << i;
}

TEST(Samples, DocumentsRestartPositionsAndIgnoreTheLabelAcross) {
  TemporaryFolder folder;
  // 9 ends a document.        0  1  2  3  4  5  6  7 | label of the last
  write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 9, 3, 9, 9, 4, 5, 9, 7});
  const TokenSource source({folder / "a.bin"}, {DType::u16}, 10);
  const SampleSet samples(source, {8, false, 1, 9});
  HostBatch b;
  samples.prepare(b, 1);
  samples.fill(b, 0, 0);
  using V = std::vector<std::int32_t>;
  EXPECT_EQ(b.tokens, (V{1, 2, 9, 3, 9, 9, 4, 5}));
  EXPECT_EQ(b.labels, (V{2, 9, -1, 9, -1, -1, 5, 9}));
  EXPECT_EQ(b.positions, (V{0, 1, 2, 0, 1, 0, 0, 1}));
  EXPECT_EQ(b.document_start, (V{0, 0, 0, 3, 3, 5, 6, 6}));
  EXPECT_EQ(b.valid_tokens, 5);
}

class Layouts : public ::testing::Test {
 protected:
  Layouts() {
    write_tokens(folder / "a.bin", count_up(0, 501));
    source.emplace(std::vector<std::string>{folder / "a.bin"}, TokenFormat{DType::u32}, 501);
    samples.emplace(*source, SampleOptions{5, true, test_seed(), -1});  // 100 samples
  }
  // First token of every row of a step over all ranks, in the order of their places.
  std::vector<std::int32_t> step_rows(std::int64_t batch, std::int64_t micro, std::int64_t ranks,
                                      std::int64_t step) const {
    std::map<std::int64_t, std::int32_t> by_place;
    HostBatch b;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      for (std::int64_t m = 0; m < micro; ++m) {
        const BatchLayout layout{batch, micro, ranks, rank};
        make_batch(*samples, layout, step, m, b);
        for (std::int64_t row = 0; row < batch; ++row)
          EXPECT_TRUE(by_place.emplace(place_of(layout, step, m, row), b.tokens[std::size_t(row * 5)]).second)
              << "a place was read twice";
      }
    std::vector<std::int32_t> rows;
    for (const auto& [place, token] : by_place) {
      EXPECT_EQ(place, step * batch * micro * ranks + std::int64_t(rows.size()));
      rows.push_back(token);
    }
    return rows;
  }

  TemporaryFolder folder;
  std::optional<TokenSource> source;
  std::optional<SampleSet> samples;
};

TEST_F(Layouts, AnyRankCountAndSplitSeesTheSameSamples) {
  for (const std::int64_t step :
       {0, 1, 3, 4, 8, 1000, 123456}) {  // 24 samples a step: steps 4 and 8 hold the end of an epoch
    const std::vector<std::int32_t> one = step_rows(24, 1, 1, step);
    EXPECT_EQ(step_rows(1, 24, 1, step), one);
    EXPECT_EQ(step_rows(4, 3, 2, step), one);
    EXPECT_EQ(step_rows(2, 4, 3, step), one);
    EXPECT_EQ(step_rows(1, 1, 24, step), one);
  }
}

TEST_F(Layouts, EachEpochReadsEverySampleOnceInAnotherOrder) {
  std::vector<std::vector<std::int32_t>> epochs(3);
  for (std::int64_t step = 0; step < 75; ++step)  // 4 samples a step, 25 steps an epoch
    for (const std::int32_t t : step_rows(2, 1, 2, step)) epochs[std::size_t(step / 25)].push_back(t);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (auto& e : epochs) {
    std::sort(e.begin(), e.end());
    for (std::int32_t i = 0; i < 100; ++i) ASSERT_EQ(e[std::size_t(i)], 5 * i);
  }
}

// Three resumes in a row change nothing: a process that starts at step k knows k and no more.
TEST_F(Layouts, ResumingNeedsTheStepAlone) {
  std::vector<std::int32_t> straight, resumed;
  for (std::int64_t step = 0; step < 40; ++step)
    for (const std::int32_t t : step_rows(3, 2, 1, step)) straight.push_back(t);
  std::int64_t step = 0;
  for (const std::int64_t stop : {7, 8, 30, 40}) {
    const TokenSource again({folder / "a.bin"}, {DType::u32}, 501);
    const SampleSet set(again, {5, true, test_seed(), -1});
    HostBatch b;
    for (; step < stop; ++step)
      for (std::int64_t m = 0; m < 2; ++m) {
        make_batch(set, {3, 2, 1, 0}, step, m, b);
        for (std::size_t row = 0; row < 3; ++row) resumed.push_back(b.tokens[row * 5]);
      }
  }
  EXPECT_EQ(resumed, straight);
}

TEST_F(Layouts, EvaluationReadsEachSampleOnceAndIgnoresRowsPastTheEnd) {
  for (const std::int64_t limit : {0, 1, 7, 99, 1000}) {
    const std::int64_t expected = limit == 0 || limit > 100 ? 100 : limit;
    std::vector<int> seen(100, 0);
    std::int64_t valid = 0;
    HostBatch b;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      const BatchLayout layout{3, 1, 2, rank};
      for (std::int64_t i = 0; i < evaluation_batches(*samples, layout, limit); ++i) {
        make_evaluation_batch(*samples, layout, limit, i, b);
        valid += b.valid_tokens;
        for (std::size_t row = 0; row < 3; ++row)
          if (b.labels[row * 5] >= 0) ++seen[std::size_t(b.tokens[row * 5] / 5)];
      }
    }
    EXPECT_EQ(valid, expected * 5);
    for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(seen[std::size_t(i)], i < expected ? 1 : 0) << limit;
  }
}

TEST(Samples, ImpossibleWishesAreErrors) {
  TemporaryFolder folder;
  write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 3, 4, 5});
  const TokenSource source({folder / "a.bin"}, {DType::u16}, 10);
  EXPECT_HAS(error_of([&] { SampleSet(source, {5, true, 1, -1}); }), "holds 5 tokens, fewer than one sample of 5 + 1");
  EXPECT_EQ(SampleSet(source, {4, true, 1, -1}).count(), 1);
  EXPECT_HAS(error_of([&] { SampleSet(source, {0, true, 1, -1}); }), "at least 1");
  HostBatch b;
  EXPECT_HAS(error_of([&] { make_batch(SampleSet(source, {4, true, 1, -1}), {1, 1, 2, 2}, 0, 0, b); }), "rank 2 of 2");
  DataConfig config;
  config.documents = true;
  EXPECT_HAS(error_of([&] { sample_options(config, source, 4, true); }), "data.document_token");
  config.document_token = 10;
  EXPECT_HAS(error_of([&] { sample_options(config, source, 4, true); }), "vocabulary of 10");
  config.document_token = 9;
  EXPECT_EQ(sample_options(config, source, 4, true).document_token, 9);
}

}  // namespace
}  // namespace mylos::data
