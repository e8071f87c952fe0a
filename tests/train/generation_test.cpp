#include "train/generation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "synthetic.hpp"
#include "train/run.hpp"

namespace mylos::train {
namespace {

const std::vector<float> kLogits{0.0f, 2.0f, -1.0f, 2.0f, 1.0f};

TEST(Sampling, GreedyTakesTheFirstOfTheLargest) {
  for (std::uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(sample_token(kLogits, {.temperature = 0.0, .top_k = 0, .seed = 1}, i), 1);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 5.0, .top_k = 1, .seed = 1}, 0), 1);
}

TEST(Sampling, FrequenciesFollowTheSoftmax) {
  const std::uint64_t seed = test::test_seed();
  for (const double temperature : {0.5, 1.0, 2.0}) {
    for (const std::int64_t k : {0, 3}) {
      std::vector<double> p(kLogits.size());
      double sum = 0;
      for (std::size_t i = 0; i < p.size(); ++i) {
        if (k == 3 && (i == 0 || i == 2)) continue;  // the three most likely are 1, 3, 4
        sum += p[i] = std::exp(double(kLogits[i]) / temperature);
      }
      std::vector<double> seen(kLogits.size());
      constexpr int kDraws = 20000;
      for (std::uint64_t i = 0; i < kDraws; ++i)
        seen[std::size_t(sample_token(kLogits, {.temperature = temperature, .top_k = k, .seed = seed}, i))] += 1;
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double expected = p[i] / sum * kDraws;
        EXPECT_NEAR(seen[i], expected, 6 * std::sqrt(expected) + 1e-9)
            << "token " << i << " temperature " << temperature << " k " << k;
      }
    }
  }
}

TEST(Sampling, SameSeedSameTokenAndBadLogits) {
  for (std::uint64_t i = 0; i < 20; ++i)
    EXPECT_EQ(sample_token(kLogits, {.temperature = 1, .top_k = 0, .seed = 3}, i),
              sample_token(kLogits, {.temperature = 1, .top_k = 0, .seed = 3}, i));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sample_token(std::vector<float>{nan, -3.0f}, {}, 0), 1);
  EXPECT_THROW(sample_token(std::vector<float>{nan, nan}, {}, 0), Error);
}

TEST(Generate, WritesTextThatASeedRepeats) {
  const test::Folder folder;
  // A byte model: the text is one line again and again, so a short training makes it write bytes of that line.
  const std::string line = "the mill grinds the grain. ";
  std::string text;
  while (text.size() < 6000) text += line;
  std::vector<std::uint16_t> tokens(text.begin(), text.end());
  std::ofstream(folder.file("t.bin"), std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), std::streamsize(2 * tokens.size()));
  std::ofstream(folder.file("t.bin.json"))
      << R"({"format": "mylos-tokens", "version": 1, "dtype": "u16", "vocab": 257, "tokenizer": "byte", "end_of_text": 256})";
  const Config c = test::tiny_config(folder, {"model.vocab=257", "data.train=" + folder.file("t.bin"),
                                              "data.validation=[]", "train.steps=60", "schedule.length=60"});
  run(c, {});
  GenerationOptions options{.weights = folder.file("run.weights.h5"),
                            .prompt = "the mill",
                            .tokenizer = "",
                            .tokens = 60,
                            .window = 0,
                            .sampling = {}};
  options.sampling.temperature = 0.0;
  std::string streamed;
  const Generated a = generate(options, [&](std::string_view bytes) { streamed += bytes; });
  EXPECT_EQ(a.text, streamed);
  EXPECT_EQ(a.tokens.size(), 60u) << "longer than the window of 24: it slides";
  EXPECT_NE(a.text.find("grinds the"), std::string::npos) << a.text;
  options.sampling.temperature = 3.0;
  const Generated b = generate(options), same = generate(options);
  EXPECT_EQ(b.tokens, same.tokens);
  options.sampling.seed = 2;
  EXPECT_NE(generate(options).tokens, b.tokens);

  options.window = 25;
  EXPECT_THROW(generate(options), Error) << "positions beyond model.max_seq_len are not known";
  options.window = -3;
  EXPECT_THROW(generate(options), Error);
  options.window = 0;
  options.tokens = 0;
  EXPECT_THROW(generate(options), Error);
  options.tokens = 1;
  options.sampling.temperature = -1;
  EXPECT_THROW(generate(options), Error);
  options.weights = folder.file("t.bin");
  EXPECT_THROW(generate(options), Error);
}

}  // namespace
}  // namespace mylos::train
