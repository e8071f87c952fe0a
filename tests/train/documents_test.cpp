// Packed documents, and sources that are mixed, through whole steps and runs.
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/store.hpp"
#include "data/training_data.hpp"
#include "synthetic.hpp"
#include "train/run.hpp"
#include "train/step.hpp"

namespace mylos::train {
namespace {

using Document = std::vector<std::uint16_t>;

// Rows of documents side by side, then padding.
data::HostBatch batch_of(const Config& c, const std::vector<std::vector<Document>>& rows) {
  data::HostBatch b;
  b.prepare(c.train.batch, c.train.sequence, DType::u16);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::int64_t at = 0;
    const auto row = std::int64_t(r);
    for (const Document& d : rows[r]) {
      const auto n = std::int64_t(d.size());
      data::set_bit(b.begins(row), at);
      data::set_bits(b.ignored(row), at, at + n, false);
      std::memcpy(b.tokens(row) + at * 2, d.data(), std::size_t(n * 2));
      at += n;
    }
    data::set_bit(b.begins(row), at);  // the padding, or what follows the row
    b.sources[r] = 0;
  }
  b.count();
  return b;
}

TEST(Documents, PackedGiveTheGradientsOfEachOnItsOwn) {
  const test::Folder folder;
  const Stream stream;
  const std::vector<std::int32_t> noise = test::random_ints(200, 0, 61, test::test_seed());
  std::vector<Document> documents;
  std::size_t at = 0;
  for (const std::size_t n : {7, 1, 16, 3, 21, 2, 22, 24, 5}) {
    documents.emplace_back();
    for (std::size_t i = 0; i < n; ++i) documents.back().push_back(std::uint16_t(noise[at++]));
  }
  struct Outcome {
    StepResult result;
    std::vector<double> gradients;
  };
  const auto outcome = [&](const char* storage, std::int64_t batch, const std::vector<std::vector<std::size_t>>& rows) {
    const auto micro_batches = std::int64_t(rows.size()) / batch;
    const Config c = test::tiny_config(
        folder, {fmt::format("train.batch={}", batch), fmt::format("train.accumulation={}", micro_batches),
                 "data.documents=true", "data.document_token=0", fmt::format("train.storage={}", storage)});
    Arena arena(plan_run(c).total_bytes, "test");
    TrainStep step(c, arena);
    step.initialize(stream);
    std::vector<data::HostBatch> batches;
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      std::vector<std::vector<Document>> of_batch;
      for (std::int64_t r = 0; r < batch; ++r) {
        of_batch.emplace_back();
        for (const std::size_t d : rows[std::size_t(m * batch + r)]) of_batch.back().push_back(documents[d]);
      }
      batches.push_back(batch_of(c, of_batch));
    }
    Outcome o{step.run(stream, 0, 0.0, batches), {}};
    o.gradients = test::to_host(stream, step.model().gradients()).v;
    return o;
  };
  for (const char* storage : {"f32", "bf16"}) {
    SCOPED_TRACE(storage);
    // Nine rows with a document each; the same in five rows; in another order with more of them in a batch.
    const Outcome alone = outcome(storage, 1, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}});
    const std::vector<Outcome> packed{outcome(storage, 1, {{0, 1, 2}, {3, 4}, {5, 6}, {7}, {8}}),
                                      outcome(storage, 5, {{7}, {4, 1, 5}, {6}, {2, 8, 3}, {0}})};
    const double size =
        std::sqrt(std::inner_product(alone.gradients.begin(), alone.gradients.end(), alone.gradients.begin(), 0.0));
    ASSERT_GT(size, 0.01);
    const double tolerance = std::strcmp(storage, "f32") == 0 ? 2e-5 : 2e-2;
    for (const Outcome& o : packed) {
      EXPECT_EQ(o.result.valid_tokens, 101 - 9) << "the last token of a document has no label";
      EXPECT_NEAR(o.result.loss, alone.result.loss, tolerance * 0.1 * alone.result.loss);
      double apart = 0;
      for (std::size_t i = 0; i < alone.gradients.size(); ++i)
        apart += (o.gradients[i] - alone.gradients[i]) * (o.gradients[i] - alone.gradients[i]);
      EXPECT_LT(std::sqrt(apart), tolerance * size);
    }
  }
}

TEST(Documents, ABundleSaysThatMfuCountsWholeRows) {
  const test::Folder folder;
  for (const bool documents : {false, true}) {
    const std::string name = folder.file(documents ? "documents.h5" : "rows.h5");
    run(test::tiny_config(folder,
                          {fmt::format("data.documents={}", documents), "data.document_token=0", "train.steps=2",
                           "eval.interval=0", "eval.final_samples=2", "output.bundle=" + name}),
        {});
    const checkpoint::Reader bundle(name, checkpoint::Trust::isolated);
    EXPECT_EQ(bundle.attributes("/derived").contains("documents"), documents);
  }
}

// A source whose tokens are all the same, which is learned at once, and one of noise, which is not.
void write_constant(const std::string& path, std::int64_t count, std::uint16_t token) {
  const std::vector<std::uint16_t> tokens(std::size_t(count), token);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(tokens.data()), count * 2);
  std::ofstream(path + ".json") << R"({"dtype": "u16"})";
}
void write_noise(const std::string& path, std::int64_t count) {
  std::vector<std::uint16_t> tokens;
  for (const std::int32_t t : test::random_ints(count, 0, 61, test::test_seed() + 5))
    tokens.push_back(std::uint16_t(t));
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(tokens.data()), count * 2);
  std::ofstream(path + ".json") << R"({"dtype": "u16"})";
}

TEST(Sources, EachHasItsOwnLossInLogAndBundleWhateverTheLayout) {
  const test::Folder folder;
  write_constant(folder.file("easy.bin"), 4000, 7);
  write_noise(folder.file("hard.bin"), 4000);
  {
    std::ofstream toml(folder.file("mix.toml"));
    toml << "[data.sources.easy]\nfiles = [\"" << folder.file("easy.bin") << "\"]\nweight = 1.0\nvalidation = [\""
         << folder.file("easy.bin") << "\"]\n[data.sources.hard]\nfiles = [\"" << folder.file("hard.bin")
         << "\"]\nweight = 2.0\nvalidation = [\"" << folder.file("hard.bin")
         << "\"]\n[[data.phases]]\nstart_step = 8\nweights = {hard = 1.0}\nlearning_rate = 0.5\n";
  }
  std::vector<std::vector<nlohmann::json>> logs;
  for (const auto& [batch, accumulation] : {std::pair{12, 1}, {4, 3}}) {
    const std::string name = folder.file(fmt::format("mix{}", batch));
    const Config c = load_config(
        folder.file("mix.toml"),
        {"model.dim=32", "model.layers=1", "model.heads=4", "model.ffn=48", "model.vocab=61", "model.max_seq_len=24",
         "train.steps=12", fmt::format("train.batch={}", batch), fmt::format("train.accumulation={}", accumulation),
         "train.sequence=24", "schedule.learning_rate=1e-2", "schedule.shape=constant", "schedule.warmup=0",
         "eval.interval=0", "output.bundle=" + name + ".h5", "output.progress=off"});
    run(c, {});
    logs.emplace_back();
    std::ifstream in(name + ".jsonl");
    for (std::string line; std::getline(in, line);) logs.back().push_back(nlohmann::json::parse(line));
    const checkpoint::Reader bundle(name + ".h5", checkpoint::Trust::isolated);
    EXPECT_EQ(std::get<std::string>(bundle.attributes("/samples/sources").at("source_1")), "hard");
    const std::vector<double> of_source = bundle.reals("/samples/sources/source"),
                              losses = bundle.reals("/samples/sources/loss");
    EXPECT_EQ(bundle.reals("/samples/evaluation_sets/loss").size(), 2u);
    std::size_t row = 0;
    for (const nlohmann::json& j : logs.back())
      if (j["event"] == "step")
        for (const char* source : {"easy", "hard"})
          if (j["sources"].contains(source)) {
            EXPECT_EQ(of_source.at(row), source[0] == 'e' ? 0.0 : 1.0);
            EXPECT_EQ(losses.at(row++), j["sources"][source]["loss"].get<double>());
          }
    EXPECT_EQ(row, losses.size());
  }
  std::int64_t easy = 0, hard = 0, steps = 0;
  for (std::size_t i = 0; i < logs[0].size(); ++i) {
    const nlohmann::json& j = logs[0][i];
    if (j["event"] == "evaluation") {
      EXPECT_LT(j["sets"]["easy"]["loss"].get<double>(), j["sets"]["hard"]["loss"].get<double>());
      continue;
    }
    if (j["event"] != "step") continue;
    const std::int64_t step = j["step"];
    const auto tokens_of = [&](const char* source) {
      return j["sources"].contains(source) ? j["sources"][source]["valid_tokens"].get<std::int64_t>() : 0;
    };
    easy += tokens_of("easy");
    hard += tokens_of("hard");
    EXPECT_EQ(tokens_of("easy") + tokens_of("hard"), j["valid_tokens"].get<std::int64_t>());
    double sum = 0;
    for (const auto& [source, s] : j["sources"].items())
      sum += s["loss"].get<double>() * s["valid_tokens"].get<double>();
    EXPECT_NEAR(sum / j["valid_tokens"].get<double>(), j["loss"].get<double>(), 1e-12);
    EXPECT_EQ(j["lr"].get<double>(), step <= 8 ? 1e-2 : 0.5e-2) << step;
    if (step == 8) {
      EXPECT_EQ(easy, 8 * 12 * 24 / 3) << "a third of 8 steps, exactly";
      EXPECT_LT(j["sources"]["easy"]["loss"].get<double>(), 3.0);
      EXPECT_GT(j["sources"]["hard"]["loss"].get<double>(), 3.0);
    }
    if (step > 8) {
      EXPECT_EQ(tokens_of("easy"), 0) << "the second phase does not read it";
    }
    const nlohmann::json& other = logs[1][i];
    EXPECT_NEAR(other["sources"]["hard"]["loss"].get<double>(), j["sources"]["hard"]["loss"].get<double>(), 2e-3);
    EXPECT_EQ(other["sources"]["hard"]["valid_tokens"], j["sources"]["hard"]["valid_tokens"]);
    ++steps;
  }
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(easy + hard, 12 * 12 * 24);
}

}  // namespace
}  // namespace mylos::train
