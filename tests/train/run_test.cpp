#include "train/run.hpp"

#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/weights.hpp"
#include "measure/inspect.hpp"
#include "synthetic.hpp"
#include "train/record.hpp"

namespace mylos::train {
namespace {

struct Logged {
  std::vector<std::string> losses;  // as written: equal texts are equal numbers
  std::vector<double> values;
  std::string status;
  std::size_t evaluations = 0;
};

Logged read_log(const std::string& path) {
  Logged log;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto j = nlohmann::json::parse(line);
    if (j["event"] == "step") {
      log.losses.push_back(j["loss"].dump());
      log.values.push_back(j["loss"].get<double>());
    }
    if (j["event"] == "evaluation") ++log.evaluations;
    if (j["event"] == "end") log.status = j["status"];
  }
  return log;
}

std::map<std::string, std::vector<std::uint8_t>> read_all_weights(const std::string& path) {
  const checkpoint::WeightsReader reader(path);
  std::map<std::string, std::vector<std::uint8_t>> weights;
  std::vector<void*> data;
  for (const auto& w : reader.weights()) {
    auto& bytes = weights[w.name];
    bytes.resize(std::size_t(w.elements() * size_of(w.dtype)));
    data.push_back(bytes.data());
  }
  reader.read(reader.weights(), data);
  return weights;
}

void expect_sound(const std::string& bundle) {
  for (const measure::Finding& f : measure::validate(bundle))
    EXPECT_FALSE(f.error) << bundle << ": " << f.where << ": " << f.what;
}

// Does something when a certain text is written to it for the first time.
class ActAt : public std::stringbuf {
 public:
  ActAt(std::string text, std::function<void()> act) : text_(std::move(text)), act_(std::move(act)) {}

 protected:
  std::streamsize xsputn(const char* s, std::streamsize n) override {
    if (act_ && std::string(s, std::size_t(n)).find(text_) != std::string::npos) std::exchange(act_, nullptr)();
    return std::stringbuf::xsputn(s, n);
  }

 private:
  std::string text_;
  std::function<void()> act_;
};

TEST(Run, LossFallsAndEverythingIsWritten) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder);
  std::ostringstream out;
  const RunResult r = run(c, {.out = &out, .terminal = false, .command_line = {"mylos", "train"}});
  EXPECT_EQ(r.status, RunStatus::finished);
  EXPECT_EQ(r.steps, 40);
  const Logged log = read_log(folder.file("run.jsonl"));
  ASSERT_EQ(log.values.size(), 40u);
  EXPECT_EQ(log.status, "finished");
  EXPECT_EQ(log.evaluations, 2u) << "at step 20 and at the end";
  EXPECT_NEAR(log.values.front(), std::log(61.0), 0.2);
  EXPECT_LT(log.values.back(), 0.6 * log.values.front());
  EXPECT_LT(r.validation_loss, 0.7 * log.values.front());
  EXPECT_NEAR(r.validation_bits_per_byte, r.validation_loss / std::log(2.0) / 3.0, 1e-9);
  expect_sound(folder.file("run.h5"));
  const auto j = nlohmann::json::parse(measure::inspect_json(folder.file("run.h5")));
  const auto& time = j["datasets"]["/samples/steps/time"];
  EXPECT_GT(time["first"].get<double>(), 0);
  EXPECT_EQ(time["max"], time["last"]) << "times of steps rise";
  EXPECT_TRUE(j["groups"]["/telemetry"]["status"].is_string()) << "sampled, or why not";
  EXPECT_NE(out.str().find("parameters"), std::string::npos) << "the plan comes before the first step";
  EXPECT_LT(out.str().find("parameters"), out.str().find("step  1/40"));
  EXPECT_NE(out.str().find("step 40/40"), std::string::npos);
}

TEST(Run, TwoRunsAgreeToTheBit) {
  for (const char* storage : {"f32", "bf16"}) {
    std::vector<Logged> logs;
    std::vector<std::map<std::string, std::vector<std::uint8_t>>> weights;
    for (int i = 0; i < 2; ++i) {
      const test::Folder folder;
      const Config c = test::tiny_config(folder, {std::string("train.storage=") + storage, "train.steps=12",
                                                  "train.accumulation=2", "optimizer.moments=bf16"});
      run(c, {});
      logs.push_back(read_log(folder.file("run.jsonl")));
      weights.push_back(read_all_weights(folder.file("run.weights.h5")));
    }
    ASSERT_EQ(logs[0].losses.size(), 12u);
    EXPECT_EQ(logs[0].losses, logs[1].losses);
    EXPECT_EQ(weights[0], weights[1]);
  }
}

TEST(Run, TheSeedMatters) {
  const test::Folder folder;
  run(test::tiny_config(folder, {"train.steps=2"}), {});
  run(test::tiny_config(folder, {"train.steps=2", "train.seed=2", "output.bundle=" + folder.file("other.h5")}), {});
  EXPECT_NE(read_log(folder.file("run.jsonl")).losses, read_log(folder.file("other.jsonl")).losses);
}

TEST(Run, AShorterRunIsThePrefixOfALongerOne) {
  const test::Folder folder;
  run(test::tiny_config(folder, {"train.steps=10"}), {});
  run(test::tiny_config(folder, {"train.steps=6", "output.bundle=" + folder.file("short.h5")}), {});
  auto longer = read_log(folder.file("run.jsonl")).losses;
  longer.resize(6);
  EXPECT_EQ(read_log(folder.file("short.jsonl")).losses, longer);
}

TEST(Run, SignalsStopAfterTheStepWithEverythingWritten) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    std::signal(signal, SIG_DFL);  // under nohup SIGHUP comes ignored, and stays so
    const test::Folder folder;
    const Config c = test::tiny_config(folder, {"output.overwrite=true"});
    ActAt buffer("step  7/40", [&] { std::raise(signal); });
    std::ostream out(&buffer);
    const RunResult r = run(c, {.out = &out, .terminal = false, .command_line = {}});
    EXPECT_EQ(r.status, RunStatus::stopped);
    const std::size_t steps = device_info().is_gpu ? 8 : 7;  // a GPU has the next one in its queue
    EXPECT_EQ(std::size_t(r.steps), steps);
    EXPECT_NE(r.message.find(std::string("SIG") + ::sigabbrev_np(signal)), std::string::npos) << r.message;
    const Logged log = read_log(folder.file("run.jsonl"));
    EXPECT_EQ(log.losses.size(), steps);
    EXPECT_EQ(log.status, "stopped");
    EXPECT_EQ(read_all_weights(folder.file("run.weights.h5")).size(), 2u * 6 + 3);
    expect_sound(folder.file("run.h5"));
  }
}

TEST(Run, DivergenceStopsWithTheLastGoodState) {
  const test::Folder folder;
  const Config good = test::tiny_config(
      folder, {"train.steps=1", "output.bundle=" + folder.file("one.h5"), "schedule.learning_rate=1e25"});
  run(good, {});
  const Config c = test::tiny_config(folder, {"schedule.learning_rate=1e25"});
  const RunResult r = run(c, {});
  EXPECT_EQ(r.status, RunStatus::diverged);
  EXPECT_EQ(r.steps, 1) << "the first update throws the weights away, the second step sees it";
  EXPECT_NE(r.message.find("schedule.learning_rate"), std::string::npos) << r.message;
  const Logged log = read_log(folder.file("run.jsonl"));
  EXPECT_EQ(log.losses.size(), 1u);
  EXPECT_EQ(log.status.rfind("failed: step 2", 0), 0u) << log.status;
  EXPECT_EQ(read_all_weights(folder.file("run.weights.h5")), read_all_weights(folder.file("one.weights.h5")))
      << "the bad step has changed nothing";
  expect_sound(folder.file("run.h5"));
}

TEST(Run, EarlierResultsAreNotReplacedUnasked) {
  const test::Folder folder;
  run(test::tiny_config(folder, {"train.steps=1"}), {});
  const auto first = std::filesystem::last_write_time(folder.file("run.h5"));
  EXPECT_THROW(run(test::tiny_config(folder, {"train.steps=2"}), {}), Error);
  EXPECT_EQ(std::filesystem::last_write_time(folder.file("run.h5")), first);
  EXPECT_EQ(run(test::tiny_config(folder, {"train.steps=2", "output.overwrite=true"}), {}).steps, 2);
}

TEST(Run, ARunThatCannotBeginLeavesTheEarlierOneAlone) {
  const test::Folder folder;
  run(test::tiny_config(folder, {"train.steps=2"}), {});
  const std::vector<std::string> again{"train.steps=2", "output.overwrite=true"};
  const auto fails = [&](std::vector<std::string> more) {
    more.insert(more.end(), again.begin(), again.end());
    EXPECT_THROW(run(test::tiny_config(folder, more), {}), Error);
    expect_sound(folder.file("run.h5"));
    EXPECT_EQ(read_log(folder.file("run.jsonl")).losses.size(), 2u);
    EXPECT_EQ(read_all_weights(folder.file("run.weights.h5")).size(), 2u * 6 + 3);
  };
  fails({"train.products=" + folder.file("no-such.json")});
  ::setenv("MYLOS_CALL", "a b", 1);
  fails({});
  ::unsetenv("MYLOS_CALL");
  fails({"train.recompute=full", "train.batch=100000000"});  // more memory than there is
}

TEST(Run, FoldersOfOutputsAreMadeAndTheConfigurationIsNoOutput) {
  const test::Folder folder;
  const std::string weights = folder.file("made/on/the/way/w.h5");
  run(test::tiny_config(folder, {"train.steps=1", "output.weights=" + weights}), {});
  EXPECT_TRUE(std::filesystem::exists(weights));
  Config c = test::tiny_config(folder, {"train.steps=1", "output.overwrite=true"});
  const std::string all = folder.file("all.toml"), top = folder.file("run.toml");
  std::ofstream(all) << to_toml(c);
  std::ofstream(top) << "include = \"all.toml\"\n";
  c = load_config(top, {});
  for (const std::string& file : {top, all}) {
    c.output.log = file;
    EXPECT_THROW(run(c, {}), Error) << file;
    EXPECT_NO_THROW(load_config(file, {}));
  }
}

TEST(Run, ErrorsInTheDataReachTheUserAndTheBundle) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder, {"data.prefetch=0", "train.steps=400", "schedule.length=400"});
  {
    // Tokens above the vocabulary here and there.
    std::fstream file(folder.file("train.bin"), std::ios::in | std::ios::out | std::ios::binary);
    const std::uint16_t bad = 61;
    for (std::int64_t i = 500; i < 20000; i += 1000) {
      file.seekp(2 * i);
      file.write(reinterpret_cast<const char*>(&bad), 2);
    }
  }
  EXPECT_THROW(run(c, {}), Error);
  const Logged log = read_log(folder.file("run.jsonl"));
  EXPECT_EQ(log.status.rfind("failed: ", 0), 0u);
  expect_sound(folder.file("run.h5"));
  EXPECT_EQ(std::filesystem::exists(folder.file("run.weights.h5")), !log.losses.empty());
}

TEST(Run, AnErrorInTheLastEvaluationKeepsTheTrainedWeights) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder, {"eval.interval=0", "eval.final_samples=0"});
  {
    std::fstream file(folder.file("validation.bin"), std::ios::in | std::ios::out | std::ios::binary);
    const std::uint16_t above_vocabulary = 61;
    file.seekp(20);
    file.write(reinterpret_cast<const char*>(&above_vocabulary), 2);
  }
  EXPECT_THROW(run(c, {}), Error);
  EXPECT_EQ(read_log(folder.file("run.jsonl")).losses.size(), std::size_t(c.train.steps));
  EXPECT_EQ(read_all_weights(folder.file("run.weights.h5")).size(), 2u * 6 + 3);
}

TEST(Run, MissingDataAndImpossibleFits) {
  const test::Folder folder;
  EXPECT_THROW(run(test::tiny_config(folder, {"data.train=" + folder.file("none-*.bin")}), {}), Error);
  EXPECT_THROW(run(test::tiny_config(folder, {"model.vocab=60"}), {}), Error);
  EXPECT_THROW(run(test::tiny_config(folder, {"model.dim=65536", "model.layers=200", "train.batch=1000"}), {}), Error);
  EXPECT_THROW(run(test::tiny_config(folder, {"output.bundle=/proc/none/run.h5"}), {}), std::exception);
  EXPECT_FALSE(std::filesystem::exists(folder.file("run.h5"))) << "nothing is written for a run that cannot start";
}

// Both would publish under one name, each over what the other one has.
TEST(Run, ARunThatStillGoesOnKeepsItsFiles) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder, {"output.overwrite=true", "train.steps=2"});
  std::string other;
  ActAt buffer("step 1/2", [&] {
    try {
      run(c, {});
    } catch (const Error& e) {
      other = e.what();
    }
  });
  std::ostream out(&buffer);
  EXPECT_EQ(run(c, {.out = &out, .command_line = {}}).status, RunStatus::finished);
  EXPECT_NE(other.find("another process does `mylos train` into '" + folder.file("run.jsonl")), std::string::npos)
      << other;
  EXPECT_EQ(read_log(folder.file("run.jsonl")).losses.size(), 2u);
  expect_sound(folder.file("run.h5"));
  EXPECT_EQ(run(c, {}).status, RunStatus::finished) << "what has ended can be replaced";
}

// Replacing begins with removing.
TEST(Run, OnlyAnEarlierRunsFilesAreReplaced) {
  const test::Folder folder;
  std::filesystem::create_directory(folder.file("folder.h5"));
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(folder.file("train.bin"), folder.file("link.jsonl"));
  test::tiny_config(folder);  // makes the tokens
  std::ofstream(folder.file("train.bin.json"))
      << R"({"format": "mylos-tokens", "version": 1, "dtype": "u16", "vocab": 61, "tokenizer": "tokenizer.json"})";
  for (const char* name : {"tokenizer.json", "tokenizer.bytes.json", "products.json"})
    std::ofstream(folder.file(name)) << name;
  for (const std::string& output :
       {"output.bundle=" + folder.file("folder.h5"), "output.log=" + folder.file("train.bin"),
        "output.weights=" + folder.file("validation.bin"), "output.log=" + folder.file("link.jsonl"),
        "output.log=" + folder.file("pipe"), "output.log=" + folder.file("train.bin.json"),
        "output.weights=" + folder.file("tokenizer.json"), "output.log=" + folder.file("tokenizer.bytes.json"),
        "output.log=" + folder.file("products.json")})
    try {
      check_outputs(test::tiny_config(
          folder, {"output.overwrite=true", output, "train.products=" + folder.file("products.json")}));
      ADD_FAILURE() << output;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("choose another name"), std::string::npos) << e.what();
    }
  for (const char* kept : {"folder.h5", "train.bin", "validation.bin", "pipe", "train.bin.json", "tokenizer.json",
                           "tokenizer.bytes.json", "products.json"})
    EXPECT_TRUE(std::filesystem::exists(folder.file(kept))) << kept;
}

}  // namespace
}  // namespace mylos::train
