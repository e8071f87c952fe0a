#include "data/samples.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "data/files.hpp"
#include "data/token_formats.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::test_seed;
using test::write_bytes;
using test::write_tokens;
using V = std::vector<std::int32_t>;

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
  const SampleSet samples(source, {s, true, test_seed(), {}});
  ASSERT_EQ(samples.count(), (n - 1) / s);
  std::vector<int> predicted(std::size_t(n), 0);
  HostBatch b;
  for (std::int64_t j = 0; j < samples.count(); ++j) {
    make_batch(samples, {}, j, 0, b);
    EXPECT_EQ(b.valid_tokens, s);
    const WidenedBatch w = widened(b);
    for (std::size_t t = 0; t < std::size_t(s); ++t) {
      EXPECT_EQ(w.labels[t], w.tokens[t] + 1);
      EXPECT_EQ(w.positions[t], std::int32_t(t));
      EXPECT_EQ(w.document_start[t], 0);
      ++predicted[std::size_t(w.labels[t])];
    }
  }
  for (std::int64_t i = 1; i <= samples.count() * s; ++i) EXPECT_EQ(predicted[std::size_t(i)], 1) << i;
}

TEST(Samples, DocumentsRestartPositionsAndIgnoreTheLabelAcross) {
  TemporaryFolder folder;
  // 9 ends a document.        0  1  2  3  4  5  6  7 | label of the last
  write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 9, 3, 9, 9, 4, 5, 9, 7});
  const TokenSource source({folder / "a.bin"}, {DType::u16}, 10);
  const SampleSet samples(source, {8, false, 1, {9}});
  HostBatch b;
  make_batch(samples, {}, 0, 0, b);
  const WidenedBatch w = widened(b);
  EXPECT_EQ(w.tokens, (V{1, 2, 9, 3, 9, 9, 4, 5}));
  EXPECT_EQ(w.labels, (V{2, 9, -1, 9, -1, -1, 5, 9}));
  EXPECT_EQ(w.positions, (V{0, 1, 2, 0, 1, 0, 0, 1}));
  EXPECT_EQ(w.document_start, (V{0, 0, 0, 3, 3, 5, 6, 6}));
  EXPECT_EQ(b.valid_tokens, 5);
  EXPECT_EQ(b.document_lengths, (V{3, 2, 1, 2}));
}

class Layouts : public ::testing::Test {
 protected:
  Layouts() {
    write_tokens(folder / "a.bin", count_up(0, 501));
    source.emplace(std::vector<std::string>{folder / "a.bin"}, TokenFormat{DType::u32}, 501);
    samples.emplace(*source, SampleOptions{5, true, test_seed(), {}});  // 100 samples
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
        const V tokens = widened(b).tokens;
        for (std::int64_t row = 0; row < batch; ++row)
          EXPECT_TRUE(by_place.emplace(place_of(layout, step, m, row), tokens[std::size_t(row * 5)]).second)
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

// Several files of both dtypes, some with an index of their own: a document ends where its file says.
TEST(Samples, EachFileSaysInItsOwnWayWhereDocumentsEnd) {
  TemporaryFolder folder;
  write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 9, 3});
  write_bytes(sidecar_path(folder / "a.bin"), R"({"dtype": "u16", "end_of_text": 9})");
  test::MegatronBytes<std::uint32_t>{.tokens = {9, 4, 5, 9, 6}, .sizes = {2, 1, 2}, .documents = {0, 1, 1, 3}}.write(
      folder / "b");
  write_tokens<std::uint16_t>(folder / "c.bin", {7, 9});
  write_bytes(sidecar_path(folder / "c.bin"), R"({"dtype": "u16", "end_of_text": 9})");
  const TokenSource source({folder / "*.bin"}, {}, 10);
  EXPECT_EQ(source.dtype(), DType::u32);
  DataConfig config;
  config.documents = true;
  const SampleSet samples(source, sample_options(config, source, 10, false));
  HostBatch b;
  make_batch(samples, {}, 0, 0, b);
  const WidenedBatch w = widened(b);
  EXPECT_EQ(w.tokens, (V{1, 2, 9, 3, 9, 4, 5, 9, 6, 7}));
  EXPECT_EQ(w.document_start, (V{0, 0, 0, 3, 4, 4, 6, 6, 6, 9}));
  EXPECT_EQ(w.labels, (V{2, 9, -1, -1, 4, -1, 9, 6, -1, 9}));
  EXPECT_EQ(document_ends(source, samples.options().documents), (std::vector<std::int64_t>{3, 4, 6, 9, 11}));
  config.document_token = 9;  // for all files, whatever an index says
  const SampleSet by_token(source, sample_options(config, source, 10, false));
  make_batch(by_token, {}, 0, 0, b);
  EXPECT_EQ(widened(b).document_start, (V{0, 0, 0, 3, 3, 5, 5, 5, 8, 8}));
  EXPECT_EQ(document_ends(source, by_token.options().documents), (std::vector<std::int64_t>{3, 5, 8, 11}));
}

// Three resumes in a row change nothing: a process that starts at step k knows k and no more.
TEST_F(Layouts, ResumingNeedsTheStepAlone) {
  std::vector<std::int32_t> straight, resumed;
  for (std::int64_t step = 0; step < 40; ++step)
    for (const std::int32_t t : step_rows(3, 2, 1, step)) straight.push_back(t);
  std::int64_t step = 0;
  for (const std::int64_t stop : {7, 8, 30, 40}) {
    const TokenSource again({folder / "a.bin"}, {DType::u32}, 501);
    const SampleSet set(again, {5, true, test_seed(), {}});
    HostBatch b;
    for (; step < stop; ++step)
      for (std::int64_t m = 0; m < 2; ++m) {
        make_batch(set, {3, 2, 1, 0}, step, m, b);
        for (std::size_t row = 0; row < 3; ++row) resumed.push_back(widened(b).tokens[row * 5]);
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
        const WidenedBatch w = widened(b);
        for (std::size_t row = 0; row < 3; ++row) {
          EXPECT_EQ(b.sources[row], w.labels[row * 5] >= 0 ? 0 : -1);
          if (w.labels[row * 5] >= 0) ++seen[std::size_t(w.tokens[row * 5] / 5)];
        }
      }
    }
    EXPECT_EQ(valid, expected * 5);
    for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(seen[std::size_t(i)], i < expected ? 1 : 0) << limit;
  }
}

// Rows longer than a word of the masks, whole and packed: an evaluation's batch is what training makes of the same samples.
TEST(Samples, EvaluationHasTheLabelsOfTraining) {
  TemporaryFolder folder;
  std::vector<std::uint16_t> tokens(2000);
  std::mt19937_64 random(test_seed());
  for (std::uint16_t& t : tokens) t = std::uint16_t(random() % 40);
  write_tokens<std::uint16_t>(folder / "a.bin", tokens);
  const TokenSource source({folder / "a.bin"}, {DType::u16}, 40);
  for (const Packing packing : {Packing::concat, Packing::best_fit})
    for (const std::int64_t s : {31, 32, 33, 64, 97}) {
      const SampleSet samples(source, {s, false, 1, {7, false}, packing});
      const std::int64_t rows = samples.count() + 2;  // two stay empty
      HostBatch evaluated, trained;
      make_evaluation_batch(samples, {rows, 1, 1, 0}, 0, 0, evaluated);
      make_batch(samples, {samples.count(), 1, 1, 0}, 0, 0, trained);
      EXPECT_EQ(evaluated.valid_tokens, trained.valid_tokens) << s;
      const WidenedBatch got = widened(evaluated), want = widened(trained);
      std::vector<std::int32_t> labels = want.labels, row_labels = trained.row_labels;
      labels.resize(std::size_t(rows * s), -1);
      row_labels.resize(std::size_t(rows), 0);
      EXPECT_EQ(got.labels, labels) << s;
      EXPECT_EQ(evaluated.row_labels, row_labels) << s;
      EXPECT_TRUE(std::equal(want.tokens.begin(), want.tokens.end(), got.tokens.begin())) << s;
      EXPECT_TRUE(std::all_of(got.tokens.begin() + std::ptrdiff_t(want.tokens.size()), got.tokens.end(),
                              [](std::int32_t t) { return t == 0; }))
          << s;
      const std::vector<std::int32_t> lengths = evaluated.document_lengths;
      evaluated.count();
      EXPECT_EQ(evaluated.document_lengths, lengths) << s;
    }
}

TEST(Samples, ImpossibleWishesAreErrors) {
  TemporaryFolder folder;
  write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 3, 4, 5});
  const TokenSource source({folder / "a.bin"}, {DType::u16}, 10);
  EXPECT_HAS(error_of([&] { SampleSet(source, {5, true, 1, {}}); }), "holds 5 tokens, fewer than one sample of 5 + 1");
  EXPECT_EQ(SampleSet(source, {4, true, 1, {}}).count(), 1);
  EXPECT_HAS(error_of([&] { SampleSet(source, {0, true, 1, {}}); }), "at least 1");
  HostBatch b;
  EXPECT_HAS(error_of([&] { make_batch(SampleSet(source, {4, true, 1, {}}), {1, 1, 2, 2}, 0, 0, b); }), "rank 2 of 2");
  DataConfig config;
  config.documents = true;
  EXPECT_HAS(error_of([&] { sample_options(config, source, 4, true); }), "data.document_token");
  config.document_token = 10;
  EXPECT_HAS(error_of([&] { sample_options(config, source, 4, true); }), "vocabulary of 10");
  config.document_token = 9;
  EXPECT_EQ(sample_options(config, source, 4, true).documents.token, 9);
}

}  // namespace
}  // namespace mylos::data
