#include "measure/bundle.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "measure/inspect.hpp"
#include "measure/sample_bundle.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using checkpoint::Reader;
using test::error_of;
using test::SampleBundle;
using test::TemporaryFolder;

std::string all(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) text += fmt::format("{} {}: {}\n", f.error ? "error" : "warning", f.where, f.what);
  return text;
}

TEST(Bundle, HoldsWhatWasPutIn) {
  const TemporaryFolder folder;
  const std::string path = folder / "made/on/the/way/run.h5";
  SampleBundle s(path);
  s.steps(1, 23);
  s.record->evaluation({.step = 23, .loss = 3.25, .bits_per_byte = 2.5, .tokens = 1000, .time_s = 0.5});
  s.record->status("finished");
  s.bundle.finish();
  EXPECT_EQ(all(validate(path)), "");
  const Reader r(path);
  const auto root = r.attributes("/");
  EXPECT_EQ(std::get<std::string>(root.at("schema")), "mylos-bundle");
  EXPECT_EQ(std::get<std::string>(root.at("kind")), "train");
  EXPECT_EQ(std::get<std::string>(root.at("status")), "finished");
  EXPECT_TRUE(std::get<bool>(root.at("complete")));
  EXPECT_EQ(r.reals("/samples/steps/loss").size(), 23u);
  EXPECT_EQ(r.reals("/samples/steps/loss")[3], 2.5);
  EXPECT_EQ(r.text("/config/toml"), test::kSampleConfig);
  EXPECT_EQ(r.texts("/plan/memory/category"), (std::vector<std::string>{"weights", "gradients"}));
  EXPECT_EQ(r.texts("/provenance/command_line"), (std::vector<std::string>{"mylos", "train", "configs/debug.toml"}));
  EXPECT_EQ(r.texts("/plan/flop_ledger/phase"), (std::vector<std::string>{"forward", "backward"}));
  // Steps 5 to 23 are steady: 8,192 tokens/s.
  EXPECT_EQ(r.real("/summary/steady_window_first"), 4);
  EXPECT_DOUBLE_EQ(r.real("/summary/tokens_per_s"), 8192);
  EXPECT_DOUBLE_EQ(r.real("/summary/tokens_per_s_median_low"), 8192);
  EXPECT_DOUBLE_EQ(r.real("/summary/data_wait_fraction"), 0.1);
  EXPECT_EQ(r.real("/summary/validation_loss_last"), 3.25);
  EXPECT_DOUBLE_EQ(r.real("/derived/mfu_causal"), s.flops.causal * 8192 / 989.4e12);
  EXPECT_DOUBLE_EQ(r.real("/derived/mfu_total"), s.flops.total * 8192 / 989.4e12);
  EXPECT_DOUBLE_EQ(r.real("/derived/sol"), 4e12 / 989.4e12 / 0.5);
}

TEST(Bundle, AnUnknownDeviceGetsNoMfu) {
  const TemporaryFolder folder;
  SampleBundle s(folder / "run.h5", "Some CPU");
  s.steps(1, 5);
  s.bundle.finish();
  const Reader r(folder / "run.h5");
  EXPECT_CONTAINS(std::get<std::string>(r.attributes("/derived").at("no_mfu")), "'Some CPU'");
  for (const std::string& name : r.datasets("/derived")) EXPECT_NE(name.rfind("mfu", 0), 0u) << name;
  EXPECT_TRUE(r.has_dataset("/derived/model_flops_per_token_causal"));
}

TEST(Bundle, KeepsOnlyListedVariablesOfTheEnvironment) {
  setenv("MYLOS_TEST_VARIABLE", "kept", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hidden", 1);
  const Provenance p = collect_provenance({});
  unsetenv("MYLOS_TEST_VARIABLE");
  unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(p.environment.at("MYLOS_TEST_VARIABLE"), "kept");
  EXPECT_EQ(p.environment.count("AWS_SECRET_ACCESS_KEY"), 0u);
  EXPECT_EQ(p.environment.count("PATH"), 0u);
  EXPECT_FALSE(p.commit.empty());
  EXPECT_TRUE(p.dirty || p.diff.empty());
  EXPECT_EQ(p.libraries.count("Kokkos"), 1u);
}

TEST(Bundle, RefusesRowsAndTablesThatDoNotFit) {
  const TemporaryFolder folder;
  Bundle b(folder / "run.h5", BundleKind::bench);
  const int t = b.add_table("samples", "times", {{"time", "s", "one sample"}, {"bytes", "byte", "moved"}});
  b.append(t, {1.0, 2.0});
  EXPECT_CONTAINS(error_of([&] { b.append(t, {1.0}); }), "has 2 columns, the row 1");
  EXPECT_CONTAINS(error_of([&] { b.add_table("samples", "times", {{"time", "s", "x"}}); }), "already has");
  EXPECT_CONTAINS(error_of([&] { b.add_table("summary", "x", {{"time", "s", "x"}}); }), "'samples' or 'telemetry'");
  EXPECT_CONTAINS(error_of([&] { b.add_table("samples", "x", {{"time", "", "x"}}); }), "needs a name");
  EXPECT_CONTAINS(error_of([&] { b.add_table("samples", "x", {{"a", "s", "x"}, {"a", "s", "x"}}); }), "twice");
  EXPECT_CONTAINS(error_of([&] { b.column(t, "absent"); }), "no column 'absent'");
  EXPECT_EQ(b.column(t, "bytes")[0], 2.0);
  b.finish();
  EXPECT_CONTAINS(error_of([&] { b.publish(); }), "is finished");
}

TEST(Bundle, PublishesNowAndThen) {
  const TemporaryFolder folder;
  SampleBundle s(folder / "run.h5");
  s.steps(1, 1);
  EXPECT_TRUE(s.bundle.maybe_publish());
  EXPECT_FALSE(s.bundle.maybe_publish());
  EXPECT_GT(s.bundle.last_publish_s(), 0);
  const auto findings = validate(folder / "run.h5");
  ASSERT_EQ(findings.size(), 1u) << all(findings);
  EXPECT_FALSE(findings[0].error);
  EXPECT_EQ(findings[0].where, "/:complete");
}

// Killed at random moments, some of them in the middle of a write: what lies there is whole, and no older than the last
// publication that the child reported.
TEST(Bundle, AKilledRunLeavesAWholeFile) {
  const TemporaryFolder folder;
  std::mt19937_64 random(test::test_seed());
  for (int trial = 0; trial < 12; ++trial) {
    const std::string path = folder / ("run" + std::to_string(trial) + ".h5");
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        SampleBundle s(path);
        for (std::int64_t step = 1;; ++step) {
          s.steps(step, step);
          s.bundle.publish();
          if (write(ends[1], &step, sizeof step) != sizeof step) _exit(1);
        }
      } catch (const std::exception&) {
        _exit(2);
      }
    }
    close(ends[1]);
    std::int64_t reported = 0;
    ASSERT_EQ(read(ends[0], &reported, sizeof reported), ssize_t(sizeof reported));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 120'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    while (read(ends[0], &reported, sizeof reported) == ssize_t(sizeof reported)) {
    }
    close(ends[0]);
    for (const Finding& f : validate(path)) EXPECT_FALSE(f.error) << f.where << ": " << f.what;
    EXPECT_GE(std::int64_t(Reader(path).reals("/samples/steps/step").size()), reported);
    EXPECT_CONTAINS(inspect_text(path), "/samples/steps/loss");
    // The next run under this name takes the leftover away.
    SampleBundle again(path);
    again.steps(1, 2);
    again.bundle.finish();
    EXPECT_EQ(all(validate(path)), "");
  }
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 12);
}

}  // namespace
}  // namespace mylos::measure
