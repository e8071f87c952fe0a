// `mylos diff` as a user runs it: exit codes, messages, JSON.
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "checkpoint/temporary_folder.hpp"
#include "checkpoint/weights.hpp"
#include "measure/sample_bench.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using test::noisy_samples;
using test::sample_case;
using test::SampleBench;
using test::TemporaryFolder;

struct Outcome {
  int code;
  std::string out;  // with stderr
};

Outcome mylos(const std::string& arguments) {
  const char* program = std::getenv("MYLOS");
  if (program == nullptr) throw std::runtime_error("MYLOS must name the program under test");
  std::FILE* pipe = popen(("'" + std::string(program) + "' " + arguments + " 2>&1").c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

Outcome diff_of(const std::string& arguments) { return mylos("diff " + arguments); }

void write_bench(const std::string& path, std::uint64_t seed, double slowdown) {
  std::mt19937_64 random(seed);
  SampleBench s(path);
  s.record.add(sample_case("copy"), noisy_samples(random, 80, 1e-3));
  s.record.add(sample_case("product"), noisy_samples(random, 80, 1e-3 * slowdown));
  s.bundle.finish();
}

TEST(DiffCommand, ExitCodesTextAndJson) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5", both = a + " " + b;
  write_bench(a, 1, 1.0);
  write_bench(b, 2, 1.03);
  const Outcome text = diff_of(both);
  EXPECT_EQ(text.code, 0);
  EXPECT_CONTAINS(text.out, "1 SAME, 0 FASTER, 1 SLOWER, 0 UNSURE");
  EXPECT_EQ(diff_of(both + " --fail-on-slower").code, 5);
  EXPECT_EQ(diff_of(both + " --fail-on-slower --case copy").code, 0);
  EXPECT_EQ(diff_of(both + " --fail-on-slower --threshold 5%").code, 0);
  EXPECT_EQ(diff_of(both + " --fail-on-slower --threshold 0.05").code, 0);
  EXPECT_EQ(diff_of(b + " " + a + " --fail-on-slower").code, 0);  // faster
  EXPECT_EQ(diff_of(both + " --fail-on-slower --pair copy=product").code, 5);
  const Outcome json = diff_of(both + " --json");
  EXPECT_EQ(nlohmann::json::parse(json.out)["cases"][1]["verdict"], "SLOWER");
}

// Patterns that std::regex did not survive; the files are not to blame.
TEST(DiffCommand, HostilePatternsAreAnswered) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5";
  SampleBench s(a);
  std::mt19937_64 random(1);
  s.record.add(sample_case(std::string(200, 'a')), noisy_samples(random, 20, 1e-3));
  s.bundle.finish();
  EXPECT_EQ(diff_of(a + " " + a + " --case '(((((a*)*)*)*)*)*$'").code, 0);
  EXPECT_EQ(diff_of(a + " " + a + " --case '(a|a)*b'").code, 2);
}

TEST(DiffCommand, WeightsAreSaidToBeWeights) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.weights.h5";
  checkpoint::write_weights(path, {}, std::vector<const void*>(), {7, "[model]\n", {}});
  const Outcome o = diff_of(path + " " + path);
  EXPECT_EQ(o.code, 1);
  EXPECT_CONTAINS(o.out,
                  "run.weights.h5' holds weights, which cannot be compared; bundles of kind 'bench' and 'train' can");
}

// What `mylos generate` would refuse is not valid.
TEST(ValidateCommand, TheConfigurationOfWeightsIsRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.weights.h5";
  for (const bool good : {true, false}) {
    checkpoint::write_weights(path, {}, std::vector<const void*>(),
                              {7, good ? "[train]\nswiglu = \"apart\"\n" : "[train]\nswiglu = \"nonsense\"\n", {}});
    const Outcome o = mylos("validate " + path);
    EXPECT_EQ(o.code, good ? 0 : 1) << o.out;
    EXPECT_CONTAINS(o.out, good ? "valid" : "error: /config/toml: its configuration:2: train.swiglu is 'nonsense'");
  }
}

// A name may come from anybody's file.
TEST(DiffCommand, NamesSteerNoTerminal) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5", b = folder / "b.h5";
  for (const std::string& path : {a, b}) {
    SampleBench s(path);
    std::mt19937_64 random(1);
    s.record.add(sample_case("ev\x1b[31mil\nname\xc2\x9b"), noisy_samples(random, 20, 1e-3));
    s.bundle.finish();
  }
  for (const std::string& words : {"diff " + a + " " + b, "diff " + a + " " + b + " --pair x=y", "inspect " + a,
                                   "validate " + a, "inspect '" + (folder / "no\x1b[31m") + "'"}) {
    const std::string out = mylos(words).out;
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << words;
    EXPECT_EQ(out.find('\x9b'), std::string::npos) << words;
  }
  EXPECT_CONTAINS(mylos("inspect " + a).out, "\nev\\x1b[31mil\\nname\\xc2\\x9b ");
  EXPECT_CONTAINS(mylos("diff " + a + " " + b).out, "\nev\\x1b[31mil\\nname");
}

TEST(DiffCommand, ErrorsAreOneLine) {
  const TemporaryFolder folder;
  const std::string a = folder / "a.h5";
  write_bench(a, 1, 1.0);
  const auto expect = [&](const std::string& arguments, int code, const std::string& part) {
    const Outcome o = diff_of(arguments);
    EXPECT_EQ(o.code, code) << arguments;
    EXPECT_CONTAINS(o.out, part);
    EXPECT_EQ(o.out.rfind("mylos: ", 0), 0u) << o.out;
    EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1) << o.out;
  };
  expect(a, 2, "b is required");
  expect(a + " " + a + " --case x --pair copy=copy", 2, "--case excludes --pair");
  expect(a + " " + a + " --threshold fast", 2, "--threshold is 'fast'; write a part like 1% or 0.01");
  expect(a + " " + a + " --threshold 0", 2, "it must be above 0");
  expect(a + " " + a + " --threshold 60%", 2, "it must be above 0 and at most 0.5");
  expect(a + " " + a + " --pair copy", 2, "write CASE_OF_A=CASE_OF_B");
  expect(a + " " + a + " --pair copy=produkt", 2, "did you mean 'product'?");
  expect(a + " " + a + " --case '['", 2, "no regular expression");
  expect(a + " " + a + " --case absent", 2, "'absent' fits none of the 2 cases");
  expect(a + " " + a + " --case " + std::string(100'000, 'a'), 2, "is too long; at most 1000");
  expect((folder / "absent.h5") + " " + a + " --case '('", 2, "no regular expression");
  expect(a + " " + a + " --paired", 1, "1 and 1 rounds do not pair");
  expect(a + " " + (folder / "absent.h5"), 1, "absent.h5");
  expect(a + " " + (folder / "nothing"), 1, "nothing");
  auto bytes = test::file_bytes(a);
  bytes.resize(bytes.size() / 2);
  test::write_file(folder / "half.h5", bytes);
  expect(a + " " + (folder / "half.h5"), 1, "cannot be compared");
}

}  // namespace
}  // namespace mylos::measure
