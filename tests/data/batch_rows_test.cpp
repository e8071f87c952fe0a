// What makes batches fast, held against loops that take one token, one place or one value at a time, at sizes that are no multiples of anything.
#include <algorithm>
#include <cstring>
#include <random>

#include "data/files.hpp"
#include "data/permutation.hpp"
#include "data/token_search.hpp"
#include "data/training_data.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::TemporaryFolder;
using test::test_seed;
using test::write_tokens;

constexpr std::int64_t kVocab = 60'000;
constexpr std::int32_t kEnd = 7;

// A row by one token at a time: `tokens` are those of its source.
WidenedBatch row_of(const SampleSet& samples, std::int64_t sample, const std::vector<std::int32_t>& tokens) {
  const std::int64_t s = samples.options().sequence;
  std::vector<std::int32_t> row, begins, labelled;
  const auto add = [&](std::int64_t at, bool begin, bool label) {
    row.push_back(at < 0 ? 0 : tokens[std::size_t(at)]);
    begins.push_back(begin);
    labelled.push_back(label);
  };
  if (samples.packed() == nullptr) {
    for (std::int64_t at = sample * s; at <= sample * s + s; ++at)
      add(at, samples.options().documents.any() && at > 0 && tokens[std::size_t(at) - 1] == kEnd, true);
  } else {
    const PackedRow packed = (*samples.packed())[sample];
    for (const Piece& p : packed.pieces) {
      for (std::int64_t k = 0; k < p.length; ++k) add(packed.base + p.offset + k, k == 0, true);
      if (p.goes_on) add(packed.base + p.offset + p.length, false, true);
    }
    for (bool first = true; std::int64_t(row.size()) <= s; first = false) add(-1, first, false);
  }
  WidenedBatch w;
  std::int32_t start = 0;
  for (std::int64_t t = 0; t < s; ++t) {
    const auto i = std::size_t(t);
    if (begins[i]) start = std::int32_t(t);
    w.tokens.push_back(row[i]);
    w.labels.push_back(labelled[i] && !begins[i + 1] ? row[i + 1] : -1);
    w.positions.push_back(std::int32_t(t) - start);
    w.document_start.push_back(start);
  }
  return w;
}

template <class T>
std::vector<T> random_tokens(std::mt19937_64& random, std::int64_t count, std::uint64_t mean) {
  std::vector<T> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(random() % mean == 0 ? T(kEnd) : T(kEnd + 1 + random() % (kVocab - kEnd - 1)));
  return tokens;
}

TEST(BatchRows, AreThoseOfALoopOverTokens) {
  std::mt19937_64 random(test_seed());
  HostBatch b;  // one for all trials: rows must not show what memory held before
  for (int trial = 0; trial < 60; ++trial) {
    TemporaryFolder folder;
    const std::int64_t s = 2 + std::int64_t(random() % (trial % 3 == 0 ? 70 : 700)),
                       rows = 1 + std::int64_t(random() % 40);
    DataConfig config;
    config.documents = trial % 2 == 0;
    config.packing = trial % 4 == 0 ? Packing::best_fit : Packing::concat;
    config.document_token = config.documents ? kEnd : -1;
    config.shuffle = random() % 4 != 0;
    const std::size_t sources = trial % 5 == 0 ? 1 : 1 + random() % 4;
    for (std::size_t i = 0; i < sources; ++i) {
      SourceConfig source{.weight = double(1 + random() % 5)};
      source.document_token = config.document_token;
      for (int f = 0; f < 3; ++f) {
        const std::string path = folder / fmt::format("{}-{}.bin", i, f);
        const std::int64_t count = 3 * s + std::int64_t(random() % 3000);
        const bool wide = (random() + trial) % 3 == 0;
        if (wide) {
          write_tokens(path, random_tokens<std::uint32_t>(random, count, 1 + random() % 300));
        } else {
          write_tokens(path, random_tokens<std::uint16_t>(random, count, 1 + random() % 300));
        }
        test::write_bytes(sidecar_path(path), wide ? R"({"dtype": "u32"})" : R"({"dtype": "u16"})");
        source.files.push_back(path);
      }
      config.sources.emplace_back(fmt::format("s{}", i), source);
    }
    const TrainingData data(config, kVocab, s, rows);
    std::vector<std::vector<std::int32_t>> all;
    for (std::size_t i = 0; i < data.size(); ++i) {
      all.emplace_back(std::size_t(data[i].tokens().size()));
      data[i].tokens().read(0, data[i].tokens().size(), all.back().data());
    }
    for (std::int64_t step = 0; step < 4; ++step) {
      make_batch(data, {.batch = rows}, step, 0, b);
      const WidenedBatch got = widened(b);
      WidenedBatch want;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto [source, sample] = data.at(step * rows + row);
        ASSERT_EQ(b.sources[std::size_t(row)], source);
        ASSERT_EQ(b.samples[std::size_t(row)], sample);
        const WidenedBatch one = row_of(data[std::size_t(source)].samples(), sample, all[std::size_t(source)]);
        const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        append(want.tokens, one.tokens);
        append(want.labels, one.labels);
        append(want.positions, one.positions);
        append(want.document_start, one.document_start);
      }
      ASSERT_EQ(got.tokens, want.tokens) << "S " << s << ", trial " << trial;
      ASSERT_EQ(got.labels, want.labels) << "S " << s << ", trial " << trial;
      ASSERT_EQ(got.positions, want.positions) << "S " << s << ", trial " << trial;
      ASSERT_EQ(got.document_start, want.document_start) << "S " << s << ", trial " << trial;
      // What was counted on the way is what count() finds afterwards.
      const auto valid = b.valid_tokens;
      const auto labels = b.row_labels, lengths = b.document_lengths;
      b.count();
      ASSERT_EQ(valid, b.valid_tokens);
      ASSERT_EQ(labels, b.row_labels);
      ASSERT_EQ(lengths, b.document_lengths);
      std::memset(b.memory().data(), 0xa5, std::size_t(b.block().bytes()));
    }
  }
}

TEST(BatchRows, SamplesOfNeighbouringPlacesAreThoseOfEach) {
  TemporaryFolder folder;
  std::mt19937_64 random(test_seed() + 1);
  for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 100, 1000}) {
    write_tokens(folder / "a.bin", std::vector<std::uint16_t>(std::size_t(n + 1), 1));
    const TokenSource source({folder / "a.bin"}, {DType::u16}, 10);
    for (const bool shuffle : {false, true}) {
      const SampleSet set(source, {1, shuffle, random(), {}});
      for (int trial = 0; trial < 20; ++trial) {
        const std::int64_t place = std::int64_t(random() % 5000);
        std::vector<std::int64_t> together(random() % 70);
        set.samples_at(place, together);
        for (std::size_t i = 0; i < together.size(); ++i)
          ASSERT_EQ(together[i], set.sample_at(place + std::int64_t(i)));
      }
    }
  }
}

TEST(BatchRows, AppliedPermutationsAreThoseOfEachValue) {
  std::mt19937_64 random(test_seed() + 2);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::int64_t n =
        trial % 50 == 0 ? std::int64_t(1) << 62 : 1 + std::int64_t(random() % (std::uint64_t(1) << random() % 62));
    const Permutation p(random(), random() % 0xffffffff, n);
    std::vector<std::int64_t> values(random() % 40);
    for (std::int64_t& v : values) v = std::int64_t(random() % std::uint64_t(n));
    const std::vector<std::int64_t> before = values;
    p.apply(values);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], p(before[i])) << "n " << n;
  }
  std::vector<std::int64_t> outside = {0, 5};
  EXPECT_HAS(test::error_of([&] { Permutation(1, 1, 5).apply(outside); }), "position 5 of a permutation of 5");
}

template <class T>
void expect_found(std::mt19937_64& random) {
  for (int trial = 0; trial < 400; ++trial) {
    const std::int64_t count = std::int64_t(random() % 1500), offset = std::int64_t(random() % 8);
    const std::uint64_t mean = 1 + random() % 600;
    const T value = trial % 3 == 0 ? std::numeric_limits<T>::max() : trial % 3 == 1 ? T(0) : T(random());
    std::vector<std::byte> bytes(std::size_t(count) * sizeof(T) + 8);
    std::vector<std::int64_t> want, got;
    for (std::int64_t i = 0; i < count; ++i) {
      // Neighbours of the value by one are what a test by borrows can take for it.
      const T t = random() % mean == 0 ? value : random() % 4 == 0 ? T(value + 1) : T(random());
      std::memcpy(bytes.data() + offset + i * std::int64_t(sizeof(T)), &t, sizeof t);
      if (t == value) want.push_back(i);
    }
    for_each_equal(bytes.data() + offset, count, value, [&](std::int64_t i) { got.push_back(i); });
    ASSERT_EQ(got, want);
  }
}

TEST(BatchRows, EqualTokensAreFoundInOrder) {
  std::mt19937_64 random(test_seed() + 3);
  expect_found<std::uint16_t>(random);
  expect_found<std::uint32_t>(random);
}

}  // namespace
}  // namespace mylos::data
