// tools/report on bundles that were just written: the report has their numbers, and damaged ones are refused.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "measure/sample_bundle.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using test::SampleBundle;
using test::TemporaryFolder;

struct Outcome {
  int code;
  std::string output;
};

std::string quoted(const std::string& path) { return fmt::format("'{}'", path); }

Outcome run_report(const std::string& arguments) {
  const std::string command =
      fmt::format("{} {} {} 2>&1", quoted(MYLOS_REPORT_PYTHON), quoted(MYLOS_REPORT), arguments);
  Outcome outcome{-1, ""};
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return outcome;
  char block[4096];
  for (std::size_t n; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) outcome.output.append(block, n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

std::string text_of(const std::string& path) {
  const auto bytes = test::file_bytes(path);
  return {bytes.begin(), bytes.end()};
}

bool is_png(const std::string& path) {
  const auto bytes = test::file_bytes(path);
  return bytes.size() > 5000 && bytes[1] == 'P' && bytes[2] == 'N' && bytes[3] == 'G';
}

TEST(Report, HasTheBundlesNumbers) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  std::mt19937_64 random(test::test_seed());
  std::normal_distribution<> noise;
  {
    SampleBundle s(path);
    for (std::int64_t i = 1; i <= 400; ++i) {
      const double fall = 2.2 + 6.1 * std::exp(-double(i) / 60);
      s.record->step(
          {.step = i,
           .loss = fall + 0.06 * noise(random),
           .grad_norm = 0.4 + 3 * std::exp(-double(i) / 30) * (1 + 0.2 * std::abs(noise(random))),
           .learning_rate = 1e-3 * (i < 40 ? double(i) / 40 : 0.55 + 0.45 * std::cos(3.14 * double(i - 40) / 360)),
           .tokens = 4096,
           .valid_tokens = 4096,
           .step_time_s = (i <= 3 ? 1.2 : 0.44) + 0.01 * std::abs(noise(random)),
           .data_wait_s = 0.001});
      if (i % 50 == 0)
        s.record->evaluation({.step = i, .loss = fall + 0.03, .bits_per_byte = fall / 2, .tokens = 65536, .time_s = 2});
    }
    s.record->status("finished");
    s.bundle.finish();
  }
  const Outcome o = run_report(quoted(path) + " --out " + quoted(folder / "out"));
  ASSERT_EQ(o.code, 0) << o.output;
  const std::string report = text_of(folder / "out/report.md");
  for (const char* part :
       {"400 steps", "`mfu_causal`", "989.4 TFLOP/s", "| weights |", "dim = 64", "tokens/s over the steady window",
        "loss.png", "throughput.png", "optimization.png", "bits per byte"})
    EXPECT_CONTAINS(report, part);
  EXPECT_EQ(report.find("is not complete"), std::string::npos);
  for (const char* figure : {"loss.png", "throughput.png", "optimization.png"})
    EXPECT_TRUE(is_png(folder / "out/" + figure)) << figure;
}

TEST(Report, SaysThatARunIsNotComplete) {
  const TemporaryFolder folder;
  for (const int steps : {0, 1, 2, 7}) {
    SampleBundle s(folder / "run.h5", "Some CPU | with a bar");
    s.steps(1, steps);
    s.bundle.publish();
    const Outcome o = run_report(quoted(folder / "run.h5"));
    ASSERT_EQ(o.code, 0) << o.output;
    const std::string report = text_of(folder / "run/report.md");
    EXPECT_CONTAINS(report, "is not complete");
    EXPECT_CONTAINS(report, "No MFU: no peak is known");
    EXPECT_CONTAINS(report, "with a bar");
    EXPECT_EQ(report.find("CPU | with"), std::string::npos);
  }
}

TEST(Report, RefusesWhatItCannotTrust) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  {
    SampleBundle s(path);
    s.steps(1, 40);
    s.bundle.finish();
  }
  auto bytes = test::file_bytes(path);
  const double value = 5.0 / std::sqrt(17.0);
  const auto* needle = reinterpret_cast<const char*>(&value);
  const auto at = std::search(bytes.begin(), bytes.end(), needle, needle + 8);
  ASSERT_NE(at, bytes.end());
  auto changed = bytes;
  changed[std::size_t(at - bytes.begin())] ^= 1;
  test::write_file(path, changed);
  EXPECT_EQ(run_report(quoted(path)).code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "run/report.md"));
  test::write_file(path, {bytes.begin(), bytes.begin() + std::ptrdiff_t(bytes.size() / 2)});
  Outcome o = run_report(quoted(path));
  EXPECT_EQ(o.code, 1);
  EXPECT_CONTAINS(o.output, "cannot be read");
  o = run_report(quoted(folder / "absent.h5"));
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.output.find("Traceback"), std::string::npos);
  ASSERT_EQ(mkfifo((folder / "pipe.h5").c_str(), 0600), 0);
  EXPECT_CONTAINS(run_report(quoted(folder / "pipe.h5")).output, "is not a regular file");
  Bundle other(path, BundleKind::bench);
  other.finish();
  o = run_report(quoted(path));
  EXPECT_EQ(o.code, 1);
  EXPECT_CONTAINS(o.output, "of kind 'bench'");
}

}  // namespace
}  // namespace mylos::measure
