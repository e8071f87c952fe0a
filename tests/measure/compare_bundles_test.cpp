#include "measure/compare_bundles.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "measure/inspect.hpp"
#include "measure/sample_bench.hpp"
#include "measure/sample_bundle.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using test::error_of;
using test::noisy_samples;
using test::sample_case;
using test::SampleBench;
using test::SampleBundle;
using test::TemporaryFolder;
using Json = nlohmann::json;

struct Machine {
  bool is_gpu = false;
  std::string device = "test device", call = "one-call";
};

// Cases a, b and c; b takes `slowdown` times as long.
void write_bench(const std::string& path, std::uint64_t seed, double slowdown = 1, const Machine& machine = {},
                 double clock_mhz = 1755) {
  std::mt19937_64 random(seed);
  SampleBench s(path);
  Provenance provenance = collect_provenance({"mylos-bench"});
  provenance.call = machine.call;
  s.bundle.set(provenance);
  Hardware hardware = collect_hardware();
  hardware.is_gpu = machine.is_gpu;
  hardware.device_name = machine.device;
  s.bundle.set(hardware);
  for (const char* name : {"ops/a", "ops/b", "data/c"}) {
    const double factor = std::string(name) == "ops/b" ? slowdown : 1;
    s.record.add(sample_case(name), noisy_samples(random, 80, 1e-3 * factor, 0.004, 0.4, clock_mhz));
  }
  s.bundle.finish();
}

Json json_of(const DiffOptions& options) { return Json::parse(diff(options).json); }

TEST(Diff, PairsCasesByName) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5";
  write_bench(a, 1);
  write_bench(b, 2, 1.03);
  const Diff d = diff({.a = a, .b = b});
  EXPECT_EQ(d.same, 2);
  EXPECT_EQ(d.slower, 1);
  const Json j = Json::parse(d.json);
  EXPECT_EQ(j["cases"][1]["name"], "ops/b");
  EXPECT_EQ(j["cases"][1]["verdict"], "SLOWER");
  EXPECT_NEAR(j["cases"][1]["time"]["ratio"].get<double>(), 1.03, 0.004);
  EXPECT_CONTAINS(d.text, "2 SAME, 0 FASTER, 1 SLOWER, 0 UNSURE");
  EXPECT_CONTAINS(d.text, "fewer than 5 runs a side");
  EXPECT_EQ(diff({.a = b, .b = a}).faster, 1);
  EXPECT_EQ(json_of({.a = a, .b = b, .pattern = "^ops/"})["cases"].size(), 2u);
  EXPECT_EQ(diff({.a = a, .b = b, .compare = {.threshold = 0.05}}).same, 3);
}

TEST(Diff, CasesOfDifferentNamesAndCasesOfOneSide) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5";
  write_bench(a, 1, 1.03);
  std::mt19937_64 random(3);
  SampleBench s(b);
  s.record.add(sample_case("ops/a"), noisy_samples(random, 80, 1e-3));
  BenchCase skipped = sample_case("ops/b");
  skipped.skipped = "too\nlarge";
  s.record.add(skipped, {});
  s.record.add(sample_case("new"), noisy_samples(random, 80, 1e-3));
  s.bundle.finish();
  const Diff d = diff({.a = a, .b = b});
  EXPECT_CONTAINS(d.text, "skipped in B: too\\nlarge");
  EXPECT_CONTAINS(d.text, "only in A: 1 cases, the first is data/c");
  EXPECT_CONTAINS(d.text, "only in B: 1 cases, the first is new");
  const Json j = json_of({.a = a, .b = a, .pairs = {{"ops/a", "ops/b"}}});  // one file is enough
  EXPECT_EQ(j["cases"][0]["verdict"], "SLOWER");
  EXPECT_EQ(j["cases"][0]["name_b"], "ops/b");
  EXPECT_CONTAINS(error_of([&] { diff({.a = a, .b = b, .pairs = {{"ops/a", "mew"}}}); }), "did you mean 'new'");
  EXPECT_CONTAINS(error_of([&] { diff({.a = a, .b = b, .pattern = "absent"}); }), "'absent' fits none of the 2 cases");
  EXPECT_CONTAINS(error_of([&] { diff({.a = a, .b = b, .pattern = "("}); }), "no regular expression");
}

TEST(Diff, WarnsOfWhatElseDiffers) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5";
  const Machine one{true, "NVIDIA H200", "call-1"};
  write_bench(a, 1, 1, one);
  write_bench(b, 2, 1, {true, "NVIDIA H100", "call-2"});
  const std::string text = diff({.a = a, .b = b}).text;
  EXPECT_CONTAINS(text, "DIFFERENT CALLS: A was measured in call 'call-1', B in 'call-2'");
  EXPECT_CONTAINS(text, "device differs: 'NVIDIA H200' in A, 'NVIDIA H100' in B (another machine");
  write_bench(b, 2, 1, {true, "NVIDIA H200", ""});
  EXPECT_CONTAINS(diff({.a = a, .b = b}).text, "CALL NOT KNOWN: B does not say");
  write_bench(b, 2, 1, one);
  EXPECT_EQ(json_of({.a = a, .b = b})["warnings"].size(), 1u);  // that there is one run a side

  std::mt19937_64 random(3);
  SampleBench s(b);
  BenchCase other = sample_case("ops/a");
  other.dtype = "f32";
  other.bytes = 2e9;
  s.record.add(other, noisy_samples(random, 80, 1e-3));
  s.bundle.publish();
  const std::string work = diff({.a = a, .b = b}).text;
  EXPECT_CONTAINS(work, "'ops/a' is not the same work in A and B: dtype bf16 and f32, bytes");
  EXPECT_CONTAINS(work, "is not complete");
}

TEST(Diff, OnAGpuCyclesConfirm) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5";
  const Machine gpu{true, "NVIDIA H200", "call"};
  write_bench(a, 1, 1, gpu, 1980);
  write_bench(b, 2, 1.05, gpu, 1980);
  EXPECT_EQ(diff({.a = a, .b = b}).slower, 1);
  write_bench(b, 2, 1.05, gpu, 1980 / 1.05);  // slower by the clock
  const Diff d = diff({.a = a, .b = b});
  EXPECT_EQ(d.slower, 0);
  EXPECT_CONTAINS(d.text, "SM clock 1980 MHz in A, 1886 MHz in B");
}

TEST(Diff, FoldersAreRounds) {
  const TemporaryFolder folder;
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  for (const char* side : {"a", "b", "same"}) std::filesystem::create_directory(folder / side);
  for (int round = 10; round < 20; ++round) {
    const double load = 1 + 0.02 * normal(random);
    for (const auto& [side, factor] : {std::pair("a", 1.0), std::pair("b", 1.03), std::pair("same", 1.0)}) {
      SampleBench s(folder / (std::string(side) + "/" + std::to_string(round) + ".h5"));
      s.record.add(sample_case("x"), noisy_samples(random, 15, 1e-3 * factor * load * (1 + 0.003 * normal(random))));
      s.bundle.finish();
    }
  }
  const Json paired = json_of({.a = folder / "a", .b = folder / "b", .compare = {.paired = true}});
  EXPECT_EQ(paired["cases"][0]["verdict"], "SLOWER");
  EXPECT_EQ(paired["cases"][0]["method"], "paired");
  EXPECT_EQ(paired["cases"][0]["a"]["rounds"], 10);
  EXPECT_TRUE(paired["warnings"].empty()) << paired["warnings"];
  EXPECT_EQ(json_of({.a = folder / "a", .b = folder / "same", .compare = {.paired = true}})["cases"][0]["verdict"],
            "SAME");
  EXPECT_EQ(json_of({.a = folder / "a", .b = folder / "b"})["cases"][0]["method"], "rounds");
  std::filesystem::remove(folder / "b/19.h5");
  EXPECT_CONTAINS(error_of([&] { diff({.a = folder / "a", .b = folder / "b", .compare = {.paired = true}}); }),
                  "do not pair");
  std::filesystem::create_directory(folder / "empty");
  EXPECT_CONTAINS(error_of([&] { diff({.a = folder / "a", .b = folder / "empty"}); }), "has no bundle");
  SampleBundle train(folder / "b/99.h5");
  train.steps(1, 9);
  train.bundle.finish();
  EXPECT_CONTAINS(error_of([&] { diff({.a = folder / "a", .b = folder / "b"}); }), "is of kind 'train', others");
}

// A run of training whose steps are `slowdown` as slow and whose losses are `more` higher from step 20 on.
void write_train(const std::string& path, std::uint64_t seed, double slowdown, double more, const std::string& config) {
  std::mt19937_64 random(seed);
  SampleBundle s(path, "a CPU");
  s.bundle.set_config(test::kSampleConfig + config);
  for (int step = 1; step <= 120; ++step)
    s.record->step({.step = step,
                    .loss = 5 / std::sqrt(step) + (step >= 20 ? more : 0),
                    .grad_norm = 1,
                    .learning_rate = 1e-3,
                    .tokens = 4096,
                    .valid_tokens = 4096,
                    .step_time_s = noisy_samples(random, 1, 0.5 * slowdown)[0].time_s,
                    .data_wait_s = 0});
  s.record->status("finished");
  s.bundle.finish();
}

TEST(Diff, RunsOfTraining) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5", bench = folder / "bench.h5";
  write_train(a, 1, 1, 0, "seed = 1\nbatch = 8\n\n[data]\ntrain = [\"x\"]\n");
  write_train(b, 2, 1.03, 0.25, "seed = 2\nbatch = 8\n\n[eval]\nevery = 5\n\n[data]\ntrain = [\"x\"]\n");
  const Diff d = diff({.a = a, .b = b});
  EXPECT_EQ(d.slower, 1);
  const Json j = Json::parse(d.json);
  EXPECT_NEAR(j["loss"]["largest_difference"].get<double>(), 0.25, 1e-9);
  EXPECT_CONTAINS(j["warnings"].dump(), "one run a side");
  EXPECT_NEAR(j["loss"]["mean_of_last_b"].get<double>() - j["loss"]["mean_of_last_a"].get<double>(), 0.25, 1e-9);
  EXPECT_EQ(j["loss"]["last"], 50);
  ASSERT_EQ(j["config"].size(), 2u);
  EXPECT_EQ(j["config"][0]["key"], "eval.every");
  EXPECT_EQ(j["config"][1], Json({{"key", "train.seed"}, {"a", "1"}, {"b", "2"}}));
  EXPECT_CONTAINS(d.text, "eval.every: (absent) in A, 5 in B");
  const Diff same = diff({.a = a, .b = a});
  EXPECT_EQ(same.same, 1);
  EXPECT_CONTAINS(same.text, "equal to the bit in all 120 common steps");
  EXPECT_CONTAINS(same.text, "configuration: equal");
  write_bench(bench, 3);
  EXPECT_CONTAINS(error_of([&] { diff({.a = a, .b = bench}); }), "a comparison needs two of one kind");
  EXPECT_CONTAINS(error_of([&] { diff({.a = a, .b = b, .pattern = "x"}); }), "are for bench bundles");
}

TEST(Diff, RefusesOtherKindsAndMissingFiles) {
  const TemporaryFolder folder;
  Bundle plan(folder / "plan.h5", BundleKind::plan);
  plan.set(collect_provenance({"test"}));
  plan.set(collect_hardware());
  plan.set_plan("{}", {});
  plan.finish();
  EXPECT_CONTAINS(error_of([&] { diff({.a = folder / "plan.h5", .b = folder / "plan.h5"}); }), "cannot be compared");
  EXPECT_CONTAINS(error_of([&] { diff({.a = folder / "absent.h5", .b = folder / "plan.h5"}); }), "absent.h5");
  test::write_file(folder / "text.h5", {'a', 'b'});
  EXPECT_CONTAINS(error_of([&] { diff({.a = folder / "text.h5", .b = folder / "plan.h5"}); }), "text.h5");
}

TEST(Diff, DamagedBundlesGiveErrorsNeverACrashOrAnotherVerdict) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5";
  write_bench(a, 1);
  write_bench(b, 2, 1.03);
  const auto whole = test::file_bytes(b);
  const std::string before = diff({.a = a, .b = b}).json;
  std::mt19937_64 random(test::test_seed());
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    auto bytes = whole;
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      for (int flips = i % 3 == 1 ? 1 : 40; flips > 0; --flips) bytes[random() % bytes.size()] = char(random());
    test::write_file(b, bytes);
    try {
      EXPECT_EQ(diff({.a = a, .b = b}).json, before);  // what was hit holds nothing
    } catch (const Error& e) {
      ++refused;
      EXPECT_CONTAINS(std::string(e.what()), "b.h5");
    }
  }
  EXPECT_GT(refused, 30);
}

}  // namespace
}  // namespace mylos::measure
