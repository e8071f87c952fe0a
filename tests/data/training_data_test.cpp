#include "data/training_data.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "data/files.hpp"
#include "data/loader.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::test_seed;
using test::write_bytes;
using test::write_tokens;

constexpr std::int64_t kSequence = 4;

// Three sources of u32 tokens; a token says its source and its place: 1000 · source + place.
class Sources : public ::testing::Test {
 protected:
  Sources() {
    for (std::uint32_t s = 0; s < 3; ++s) {
      std::vector<std::uint32_t> tokens(std::size_t(kSequence * counts[s] + 1));
      std::iota(tokens.begin(), tokens.end(), 1000 * s);
      write_tokens(folder / fmt::format("{}.bin", s), tokens);
    }
    config.dtype = StatedDType::u32;
    config.seed = std::int64_t(test_seed());
    config.sources = {{"books", source(0, 2)}, {"code", source(1, 1)}, {"web", source(2, 4)}};
    config.phases = {{7, {{"code", 1.0}, {"web", 1.0}}, 0.5}, {20, {}, 0.25}};
  }
  SourceConfig source(int number, double weight) const {
    return {.files = {folder / fmt::format("{}.bin", number)}, .weight = weight};
  }
  TrainingData open(std::int64_t samples_per_step) const { return {config, 3000, kSequence, samples_per_step}; }

  // (source, first token) of the rows of a step over all ranks, in the order of their places.
  using Rows = std::vector<std::pair<std::int32_t, std::int32_t>>;
  static Rows rows_of(const HostBatch& b) {
    Rows rows;
    const WidenedBatch w = widened(b);
    for (std::size_t r = 0; r < std::size_t(b.batch); ++r) rows.emplace_back(b.sources[r], w.tokens[r * kSequence]);
    return rows;
  }
  static Rows step_rows(const TrainingData& data, std::int64_t batch, std::int64_t micro, std::int64_t ranks,
                        std::int64_t step) {
    std::map<std::int64_t, std::pair<std::int32_t, std::int32_t>> by_place;
    HostBatch b;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      for (std::int64_t m = 0; m < micro; ++m) {
        const BatchLayout layout{batch, micro, ranks, rank};
        make_batch(data, layout, step, m, b);
        const Rows rows = rows_of(b);
        for (std::int64_t row = 0; row < batch; ++row)
          EXPECT_TRUE(by_place.emplace(place_of(layout, step, m, row), rows[std::size_t(row)]).second);
      }
    Rows rows;
    for (const auto& [place, row] : by_place) rows.push_back(row);
    return rows;
  }

  TemporaryFolder folder;
  const std::int64_t counts[3] = {30, 7, 100};  // samples of an epoch
  DataConfig config;
};

TEST_F(Sources, AnyRankCountSplitPrefetchAndResumeSeesTheSameOrder) {
  const TrainingData data = open(24);
  std::vector<Rows> straight;
  for (std::int64_t step = 0; step < 40; ++step) straight.push_back(step_rows(data, 24, 1, 1, step));
  for (std::int64_t ranks = 1; ranks <= 8; ++ranks) {
    if (24 % ranks != 0) continue;
    const std::int64_t batch = ranks == 8 ? 3 : 2, micro = 24 / ranks / batch;
    for (std::int64_t step = 0; step < 40; ++step)
      ASSERT_EQ(step_rows(data, batch, micro, ranks, step), straight[std::size_t(step)]) << ranks << " ranks";
  }
  // Each start is a resume: a process that knows the step and no more.
  std::int64_t first = 0;
  for (const std::int64_t stop : {6, 7, 21, 40}) {
    const TrainingData again = open(24);
    const BatchLayout layout{8, 3};
    Loader loader([&](std::int64_t s, std::int64_t m, HostBatch& b) { make_batch(again, layout, s, m, b); }, 3, first,
                  stop % 5);
    HostBatch b;
    for (; first < stop; ++first) {
      Rows rows;
      for (int m = 0; m < 3; ++m) {
        loader.next(b);
        const Rows some = rows_of(b);
        rows.insert(rows.end(), some.begin(), some.end());
      }
      ASSERT_EQ(rows, straight[std::size_t(first)]);
    }
  }
}

TEST_F(Sources, EachSourceReadsItsSamplesOnceAnEpochAndSaysHowFarItIs) {
  const TrainingData data = open(6);
  std::vector<std::map<std::int32_t, int>> seen(3);
  std::vector<std::int64_t> read(3, 0);
  for (std::int64_t step = 0; step < 300; ++step) {
    const std::vector<SourceUse> use = data.use_before(step);
    for (std::size_t s = 0; s < 3; ++s) {
      ASSERT_EQ(use[s].samples, read[s]);
      ASSERT_EQ(use[s].epochs, double(read[s]) / double(counts[s]));
      // So many times was every sample read, some one more.
      for (const auto& [token, times] : seen[s])
        ASSERT_TRUE(times == read[s] / counts[s] || times == read[s] / counts[s] + 1);
    }
    for (const auto& [source, token] : step_rows(data, 3, 2, 1, step)) {
      ASSERT_EQ(token / 1000, source);
      ++seen[std::size_t(source)][token];
      ++read[std::size_t(source)];
    }
  }
  for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(std::int64_t(seen[s].size()), counts[s]);
}

TEST_F(Sources, PhasesChangeWeightsAndLearningRateAtTheirSteps) {
  const TrainingData data = open(14);
  for (const auto& [step, factor] : {std::pair{0, 1.0}, {6, 1.0}, {7, 0.5}, {19, 0.5}, {20, 0.25}, {1000, 0.25}})
    EXPECT_EQ(data.learning_rate_factor(step), factor);
  for (std::int64_t step = 0; step < 40; ++step) {
    std::vector<int> count(3, 0);
    for (const auto& [source, token] : step_rows(data, 14, 1, 1, step)) ++count[std::size_t(source)];
    const std::vector<int> expected = step >= 7 && step < 20 ? std::vector{0, 7, 7} : std::vector{4, 2, 8};
    for (std::size_t s = 0; s < 3; ++s) EXPECT_LT(std::abs(count[s] - expected[s]), 2) << step;
    if (step >= 7 && step < 20) {
      EXPECT_EQ(count[0], 0);
    }
  }
  EXPECT_EQ(data.weight(1, 0), 0);
  EXPECT_EQ(data.weight(2, 2), data.weight(0, 2)) << "a phase without weights has those of the sources";
}

TEST_F(Sources, OrdersOfSourcesDoNotDependOnEachOther) {
  const auto of_source = [&](const TrainingData& data, const std::string& name) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t step = 0; step < 60; ++step)
      for (const auto& [source, token] : step_rows(data, 6, 1, 1, step))
        if (data[std::size_t(source)].name() == name) tokens.push_back(token % 1000);
    tokens.resize(60);
    return tokens;
  };
  const TrainingData three = open(6);
  const std::vector<std::int32_t> web = of_source(three, "web");
  config.phases.clear();
  config.sources.erase(config.sources.begin());
  EXPECT_EQ(of_source(open(6), "web"), web);
  config.sources[0].second.files = config.sources[1].second.files;  // "code" now reads the same file
  EXPECT_NE(of_source(open(6), "code"), web) << "two sources of equal files are shuffled apart";
}

TEST_F(Sources, WeightsCanBeSizesAndAreTempered) {
  config.phases.clear();
  for (auto& [name, source] : config.sources) source.weight = -1;
  const TrainingData by_size = open(6);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(by_size.weight(0, s), double(counts[s]) / 137, 1.0 / 65536);
  config.temperature = 2;
  const TrainingData even = open(6);
  const double sum = std::sqrt(30) + std::sqrt(7) + std::sqrt(100);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(even.weight(0, s), std::sqrt(double(counts[s])) / sum, 1.0 / 65536);
}

TEST_F(Sources, OneSourceOfDataTrainHasTheOrderOfItsSamples) {
  DataConfig plain;
  plain.dtype = StatedDType::u32;
  plain.train = {folder / "2.bin"};
  plain.seed = 5;
  const TrainingData data(plain, 3000, kSequence, 6);
  const TokenSource tokens(plain.train, declared_format(plain), 3000);
  const SampleSet samples(tokens, sample_options(plain, tokens, kSequence, true));
  HostBatch a, b;
  for (std::int64_t step = 0; step < 40; ++step) {
    make_batch(data, {6}, step, 0, a);
    make_batch(samples, {6}, step, 0, b);
    ASSERT_EQ(widened(a).tokens, widened(b).tokens);
    ASSERT_EQ(a.sources, b.sources);
  }
}

TEST_F(Sources, NarrowAndWideFilesMeetInOneBatch) {
  std::vector<std::uint16_t> tokens(41);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t(0));
  write_tokens(folder / "0.bin", tokens);
  config.sources[0].second.dtype = StatedDType::u16;
  const TrainingData data = open(6);
  EXPECT_EQ(data[0].tokens().dtype(), DType::u16);
  EXPECT_EQ(data.dtype(), DType::u32);
  for (std::int64_t step = 0; step < 10; ++step)
    for (const auto& [source, token] : step_rows(data, 6, 1, 1, step)) EXPECT_EQ(token / 1000, source);
}

TEST_F(Sources, ValidationIsThatOfEachSourceOrOneForAll) {
  EXPECT_TRUE(validation_data(config, 3000, kSequence).empty());
  config.sources[2].second.validation = {folder / "0.bin"};
  const auto own = validation_data(config, 3000, kSequence);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].name(), "web");
  EXPECT_EQ(own[0].samples().sample_at(3), 3) << "it is not shuffled";
  config.validation = {folder / "1.bin"};
  EXPECT_HAS(error_of([&] { validation_data(config, 3000, kSequence); }), "data.sources.web.validation are both given");
  config.sources[2].second.validation.clear();
  EXPECT_EQ(validation_data(config, 3000, kSequence).at(0).name(), "validation");
}

TEST_F(Sources, FilesOfTwoTokenizersAreRefused) {
  const auto says = [&](int number, std::string_view tokenizer) {
    write_bytes(folder / fmt::format("{}.bin.json", number),
                fmt::format(R"({{"dtype": "u32", "tokenizer": "{}"}})", tokenizer));
  };
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_directory(folder / "b");
  write_bytes(folder / "a/tokenizer.json", "one");
  write_bytes(folder / "b/tokenizer.json", "one");
  says(0, "a/tokenizer.json");
  config.tokenizer = folder / "nope.json";
  EXPECT_HAS(error_of([&] { open(6); }), "nope.json' is no file");
  config.tokenizer = "byte";
  EXPECT_EQ(open(6).tokenizer(), "byte");
  config.tokenizer.clear();
  EXPECT_EQ(open(6).tokenizer(), "") << "two files do not say";
  says(1, "b/tokenizer.json");
  says(2, "a/tokenizer.json");
  EXPECT_EQ(open(6).tokenizer(), folder / "a/tokenizer.json") << "copies of one tokenizer are one";

  write_bytes(folder / "b/tokenizer.json", "two");
  EXPECT_HAS(error_of([&] { open(6); }), fmt::format("'{}' of '{}'", folder / "1.bin", folder / "b/tokenizer.json"));
  says(1, "byte");
  EXPECT_HAS(error_of([&] { open(6); }), "1.bin' of 'byte'");
  config.tokenizer = folder / "a/tokenizer.json";
  EXPECT_EQ(open(6).tokenizer(), config.tokenizer);

  config.tokenizer.clear();
  config.sources = {{"books", source(0, 2)}};
  config.phases.clear();
  config.validation = {folder / "1.bin"};
  const TrainingData train = open(6);
  const auto validation = validation_data(config, 3000, kSequence);
  EXPECT_HAS(error_of([&] { check_tokenizers(config, train, validation); }), "set data.tokenizer");
}

TEST_F(Sources, ErrorsNameTheKeyAndTheSource) {
  const auto error = [&](auto&& change) {
    DataConfig changed = config;
    change(changed);
    return error_of([&] { TrainingData(changed, 3000, kSequence, 6); });
  };
  EXPECT_HAS(error([](DataConfig& c) { c.train = {"x"}; }), "data.train and data.sources are both given");
  EXPECT_HAS(error([](DataConfig& c) { c.sources.clear(), c.phases.clear(); }), "set data.train");
  EXPECT_HAS(error([](DataConfig& c) { c.sources[1].second.files.clear(); }), "data.sources.code.files is empty");
  EXPECT_HAS(error([](DataConfig& c) { c.sources[1].second.weight = -1; }), "data.sources.code.weight is not given");
  EXPECT_HAS(error([](DataConfig& c) { c.sources[1].second.weight = -0.5; }), "data.sources.code.weight is -0.5");
  EXPECT_HAS(error([](DataConfig& c) { c.phases[1].start_step = 7; }), "data.phases[1].start_step is 7");
  EXPECT_HAS(error([](DataConfig& c) { c.phases[0].start_step = 0; }), "data.phases[0].start_step is 0");
  EXPECT_HAS(error([](DataConfig& c) { c.phases[0].weights[0].first = "cod"; }), "did you mean code?");
  EXPECT_HAS(error([](DataConfig& c) { c.phases[0].weights = {{"web", 0.0}}; }), "data.phases[0].weights are all 0");
  EXPECT_HAS(error([](DataConfig& c) {
               for (auto& s : c.sources) s.second.weight = 0;
             }),
             "all data.sources are 0");
  EXPECT_HAS(error([](DataConfig& c) { c.sources[1].second.files = {"/none/*.bin"}; }), "source code: no file matches");
  HostBatch b;
  EXPECT_HAS(error_of([&] { make_batch(open(6), {5}, 0, 0, b); }), "a layout of 5 samples a step for data of 6");
  std::filesystem::resize_file(folder / "2.bin", 8);
  EXPECT_HAS(error([](DataConfig&) {}), "source web: ");
}

TEST_F(Sources, DamagedFilesOfAMixtureAreNamed) {
  config.phases.clear();
  config.shuffle = false;
  const TrainingData small(config, 2005, kSequence, 7);  // all of web from token 5 on is too large
  HostBatch b;
  EXPECT_HAS(error_of([&] {
               for (std::int64_t step = 0; step < 10; ++step) make_batch(small, {7}, step, 0, b);
             }),
             "2.bin': token 2005 at position 5 is not below the vocabulary of 2005");
  const TrainingData data = open(7);
  std::filesystem::resize_file(folder / "1.bin", 40);
  EXPECT_HAS(error_of([&] {
               for (std::int64_t step = 0; step < 10; ++step) make_batch(data, {7}, step, 0, b);
             }),
             "1.bin' was cut while in use: 40 bytes");
}

TEST_F(Sources, AreDescribedInALineEach) {
  const std::string text = describe(open(6), 300);
  EXPECT_HAS(text, "books  121 tokens, 30 samples an epoch, weight 0.2857");
  EXPECT_HAS(text, "from step 7  learning rate x 0.5, weights code 0.5000, web 0.5000");
}

}  // namespace
}  // namespace mylos::data
