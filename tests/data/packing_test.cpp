#include "data/packing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "data/files.hpp"
#include "data/samples.hpp"
#include "data/token_formats.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::test_seed;
using test::write_tokens;

std::vector<std::int64_t> ends_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> ends;
  std::int64_t at = 0;
  for (const std::int64_t n : lengths) ends.push_back(at += n);
  return ends;
}

// Web text is about log-normal; mean is exp(mu + sigma^2 / 2).
std::vector<std::int64_t> log_normal(std::int64_t count, double mean, double sigma, std::uint64_t seed) {
  std::mt19937_64 gen(seed);
  std::lognormal_distribution<double> length(std::log(mean) - sigma * sigma / 2, sigma);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < count; ++i) lengths.push_back(std::max<std::int64_t>(1, std::int64_t(length(gen))));
  return lengths;
}

// Every token lies in a row once, in pieces that are whole documents or whole rows, or is one that has no label.
void expect_sound(const std::vector<std::int64_t>& ends, std::int64_t s, const PackedRows& rows) {
  std::vector<std::pair<std::int64_t, Piece>> pieces;
  std::int64_t labels = 0, tokens = 0, last_first = -1;
  for (std::int64_t r = 0; r < rows.size(); ++r) {
    const PackedRow row = rows[r];
    ASSERT_FALSE(row.pieces.empty());
    std::int64_t filled = 0, before = -1;
    for (const Piece& p : row.pieces) {
      ASSERT_LT(before, row.base + p.offset) << "pieces of a row are in the order of the files";
      before = row.base + p.offset;
      filled += p.length;
      labels += std::int64_t(p.length) - 1 + p.goes_on;
      ASSERT_TRUE(p.goes_on == 0 || p.length == s);
      pieces.emplace_back(before, p);
    }
    ASSERT_LE(filled, s);
    tokens += filled;
    const std::int64_t first = row.base + row.pieces.front().offset;
    ASSERT_LT(last_first, first) << "rows are in the order of their first documents";
    last_first = first;
  }
  std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::int64_t begin = 0, left_out = 0;
  std::size_t next = 0;
  for (const std::int64_t end : ends) {
    for (std::int64_t at = begin; at < end; at += s) {
      const std::int64_t length = std::min(s, end - at);
      if (length == 1 && at + length == end) {
        ++left_out;
        continue;
      }
      ASSERT_LT(next, pieces.size());
      ASSERT_EQ(pieces[next].first, at);
      ASSERT_EQ(pieces[next].second.length, length);
      ASSERT_EQ(pieces[next].second.goes_on, at + length < end);
      ++next;
    }
    begin = end;
  }
  EXPECT_EQ(next, pieces.size());
  const PackingCounts& c = rows.counts();
  EXPECT_EQ(c.documents, std::int64_t(ends.size()));
  EXPECT_EQ(c.pieces, std::int64_t(pieces.size()));
  EXPECT_EQ(c.tokens, tokens);
  EXPECT_EQ(c.labels, labels);
  EXPECT_EQ(c.left_out, left_out);
  EXPECT_EQ(tokens + left_out, ends.empty() ? 0 : ends.back());
}

TEST(Packing, EveryTokenLiesInOneRowAndDocumentsAreWhole) {
  std::mt19937_64 gen(test_seed());
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t s = 2 + std::int64_t(gen() % (trial % 2 ? 200 : 5000));
    std::vector<std::int64_t> lengths;
    for (std::int64_t n = std::int64_t(gen() % 300); n > 0; --n)
      lengths.push_back(1 + std::int64_t(gen() % std::uint64_t(trial % 3 ? s : 5 * s)));
    const auto ends = ends_of(lengths);
    expect_sound(ends, s, PackedRows(ends, s, 1));
  }
}

TEST(Packing, RowsAreThoseOfOneThreadAndBlocksMeetWithinADocument) {
  std::vector<std::int64_t> lengths = log_normal(200'000, 400, 1.2, test_seed());
  lengths.insert(lengths.begin() + 1000, 1024 * 100'000);  // longer than a block
  const auto ends = ends_of(lengths);
  const PackedRows one(ends, 1024, 1), four(ends, 1024, 4);
  expect_sound(ends, 1024, one);
  ASSERT_EQ(one.size(), four.size());
  for (std::int64_t r = 0; r < one.size(); ++r) {
    const PackedRow a = one[r], b = four[r];
    ASSERT_EQ(a.base, b.base);
    ASSERT_TRUE(std::equal(a.pieces.begin(), a.pieces.end(), b.pieces.begin(), b.pieces.end(), [](Piece x, Piece y) {
      return x.offset == y.offset && x.length == y.length && x.goes_on == y.goes_on;
    }));
  }
}

// The figure of the issue: above 97 % on log-normal lengths.
TEST(Packing, FillsRowsOnLogNormalLengths) {
  for (const double mean : {150.0, 600.0, 1500.0})
    for (const double sigma : {0.8, 1.2, 1.6})
      for (const std::int64_t s : {512, 2048, 8192}) {
        const auto ends = ends_of(log_normal(100'000, mean, sigma, test_seed()));
        const double fill = PackedRows(ends, s).fill();
        EXPECT_GT(fill, 0.97) << "mean " << mean << ", sigma " << sigma << ", S " << s;
      }
}

TEST(Packing, Refuses) {
  const std::vector<std::int64_t> falling = {3, 3};
  EXPECT_HAS(error_of([&] { PackedRows(falling, 4); }), "document 1 ends at token 3, the one before it at 3");
  EXPECT_HAS(error_of([&] { PackedRows(falling, 1); }), "rows of 1 tokens");
  EXPECT_EQ(PackedRows({}, 4).size(), 0);
}

// S = 4, 9 ends a document; token values tell where they come from.
TEST(Packing, BatchesOfRowsHaveTheirLabelsAndPadding) {
  TemporaryFolder folder;
  write_tokens<std::uint16_t>(folder / "a.bin", {1, 2, 9, 9, 3, 4, 5, 6, 7});
  write_tokens<std::uint16_t>(folder / "b.bin", {8, 9, 1, 9, 2, 3, 4, 9, 5});
  const TokenSource source({folder / "*.bin"}, {DType::u16}, 10);
  const SampleSet samples(source, {4, false, 1, {9}, Packing::best_fit});
  // Documents: 1 2 9 | 9 | 3 4 5 6 7 8 9 | 1 9 | 2 3 4 9 | 5. The end tokens alone are left out.
  EXPECT_EQ(samples.packed()->counts().left_out, 2);
  EXPECT_EQ(samples.tokens(), 16);
  ASSERT_EQ(samples.count(), 5);
  HostBatch b;
  make_batch(samples, {.batch = 5}, 0, 0, b);
  const WidenedBatch w = widened(b);
  using V = std::vector<std::int32_t>;
  EXPECT_EQ(w.tokens, (V{1, 2, 9, 0, 3, 4, 5, 6, 7, 8, 9, 0, 1, 9, 0, 0, 2, 3, 4, 9}));
  EXPECT_EQ(w.labels, (V{2, 9, -1, -1, 4, 5, 6, 7, 8, 9, -1, -1, 9, -1, -1, -1, 3, 4, 9, -1}));
  EXPECT_EQ(w.document_start, (V{0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(b.valid_tokens, samples.packed()->counts().labels);
}

// Any files, any rule: a packed epoch and a cut one predict the same tokens from the same documents.
TEST(Packing, PredictsWhatTheDocumentsHold) {
  TemporaryFolder folder;
  std::mt19937_64 gen(test_seed() + 3);
  for (int trial = 0; trial < 20; ++trial) {
    std::int64_t predicted = 0;
    for (int f = 0; f < 3; ++f) {
      std::vector<std::uint16_t> tokens;
      for (std::int64_t n = 1 + std::int64_t(gen() % 3000); n > 0; --n)
        tokens.push_back(gen() % 20 == 0 ? 0 : std::uint16_t(1 + gen() % 60000));
      write_tokens(folder / fmt::format("{}.bin", f), tokens);
    }
    const TokenSource source({folder / "*.bin"}, {DType::u16}, 60001);
    const SampleSet samples(source, {32, true, test_seed(), {0}, Packing::best_fit});
    std::vector<std::int32_t> all(std::size_t(source.size()));
    source.read(0, source.size(), all.data());
    std::vector<std::int32_t> expected, got;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (all[i - 1] != 0) expected.push_back(all[i]);
    HostBatch b;
    for (std::int64_t j = 0; j < samples.count(); ++j) {
      make_batch(samples, {}, j, 0, b);
      predicted += b.valid_tokens;
      for (const std::int32_t label : widened(b).labels)
        if (label >= 0) got.push_back(label);
    }
    EXPECT_EQ(predicted, samples.packed()->counts().labels);
    std::sort(expected.begin(), expected.end());
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got, expected);
  }
}

TEST(Packing, ErrorsOfFilesNameThem) {
  TemporaryFolder folder;
  const std::string path = write_tokens(folder / "a.bin", std::vector<std::uint16_t>(20'000, 7));
  const TokenSource source({path}, {DType::u16}, 10);
  const SampleSet samples(source, {100, false, 1, {1}, Packing::best_fit});
  HostBatch b;
  make_batch(samples, {}, 100, 0, b);
  const TokenSource narrow({path}, {DType::u16}, 7);
  EXPECT_HAS(error_of([&] {
               make_batch(SampleSet(narrow, {100, false, 1, {1}, Packing::best_fit}), {}, 3, 0, b);
             }),
             "a.bin': token 7 at position 300 is not below the vocabulary of 7");
  std::filesystem::resize_file(path, 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // an answer of the last millisecond counts
  EXPECT_HAS(error_of([&] { make_batch(samples, {}, 100, 0, b); }), "was cut while in use: 1000 bytes");
}

}  // namespace
}  // namespace mylos::data
