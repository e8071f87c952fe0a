// mylos-bench as a program: what it lists, refuses, writes, and how it ends; and that `mylos bench` is it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "checkpoint/store.hpp"
#include "measure/inspect.hpp"

namespace mylos::bench {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string output;  // and errors
};

class Program : public ::testing::Test {
 protected:
  Program() : folder_(fs::temp_directory_path() / ("mylos_bench_test_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Program() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static std::string named(const char* variable) {
    const char* path = std::getenv(variable);
    if (path == nullptr) throw std::runtime_error(std::string(variable) + " must name a program");
    return path;
  }
  Outcome run(const std::string& arguments, const std::string& program = named("MYLOS_BENCH")) const {
    return shell("'" + program + "' " + arguments);
  }
  Outcome shell(const std::string& words) const {
    const int status = std::system(("(" + words + ") > " + file("output") + " 2>&1").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(file("output"))};
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

 private:
  fs::path folder_;
};

TEST_F(Program, ListsTheCasesThatAPatternFits) {
  const Outcome all = run("--list"), some = run("--list '^optimizer/adamw' harness/null");
  EXPECT_EQ(all.code, 0);
  EXPECT_NE(all.output.find("checkpoint/write\n"), std::string::npos);
  EXPECT_EQ(some.code, 0);
  EXPECT_EQ(some.output.find("harness/null\n"), 0u) << some.output;
  EXPECT_EQ(some.output.find("lion"), std::string::npos);
}

TEST_F(Program, RefusesWhatItDoesNotKnow) {
  for (const char* wrong : {"no_such_case",
                            "--bugdet=1",
                            "--budget 0",
                            "'('",
                            "--benchmark_format=xml harness/null",
                            "--benchmark_no_such_flag harness/null",
                            "--benchmark_no_such_flag --list",
                            "--benchmark_filter=null harness/null",
                            "--benchmark_repetitions=3 harness/null",
                            "--benchmark_min_time=1 --list",
                            "--benchmark_out --list",
                            "--benchmark_out=a --benchmark_out=b --list",
                            "--benchmark_out_format=json --list",
                            "--products",
                            "--bundle a.h5 --bundle=b.h5 --list",
                            "--budget 1 --budget 1 --list",
                            "--sample 2 --budget 1 harness/null",
                            "--sample 0.3 --budget 1 harness/null",
                            "--budget 1e-3 harness/null",
                            "--pool 1e-9 harness/null"}) {
    const Outcome o = run(wrong);
    EXPECT_EQ(o.code, 2) << wrong << ": " << o.output;
  }
  EXPECT_EQ(shell("BENCHMARK_FILTER=x '" + named("MYLOS_BENCH") + "' --list").code, 2);
  EXPECT_NE(run("--benchmark_repetitions=3").output.find("tools/compare"), std::string::npos);
  EXPECT_NE(run("--bugdet=1").output.find("did you mean '--budget'"), std::string::npos);
  EXPECT_NE(run("harness/nul_l").output.find("harness/null"), std::string::npos);
  EXPECT_EQ(run("--quick harness/null --bundle /proc/no/such.h5").code, 1);
  EXPECT_EQ(run("--help").code, 0);
}

// Each of these ended std::regex by its stack, or not at all.
TEST_F(Program, AnswersHostilePatternsAtOnce) {
  for (const std::string& pattern :
       {std::string("(((((a*)*)*)*)*)*$"), std::string("(a|a)*b$"), std::string("(.*)*(.*)*(.*)*zzz"),
        std::string("((a{99}){99}){99}"), std::string(100'000, 'a'), std::string(50'000, '(')}) {
    for (const auto& [words, program] : {std::pair("", named("MYLOS_BENCH")), std::pair("bench ", named("MYLOS"))}) {
      const Outcome o = run(std::string(words) + "--list '" + pattern + "'", program);
      EXPECT_TRUE(o.code == 0 || o.code == 2) << pattern.substr(0, 40) << ": " << o.code;
      EXPECT_LT(o.output.size(), 20'000u) << "a pattern is not told in full";
    }
  }
}

TEST_F(Program, NothingThatFitsIsAFailure) {
  const Outcome o =
      run("--quick --budget 0.05 --pool 0.001 '^ops/.*/swiglu_forward' --no_rooflines --bundle " + file("n.h5"));
  EXPECT_EQ(o.code, 1) << o.output;
  EXPECT_NE(o.output.find("none of the cases had room; raise --pool"), std::string::npos) << o.output;
}

// A limit on the size of files is an error, and leaves nothing behind: no half bundle, no half report, no files of a case's own.
TEST_F(Program, AFileThatMustNotGrowIsAnError) {
  const std::string program = "'" + named("MYLOS_BENCH") + "' --quick --budget 0.05 --pool 0.1 ";
  const std::string own = file("own");
  fs::create_directory(own);
  const auto limited = [&](int kib, const std::string& arguments) {
    return shell("export TMPDIR=" + own + "; ulimit -f " + std::to_string(kib) + "; " + program + arguments);
  };
  // The shell's own limit is in units of 512 or 1,024 bytes; the output of a run is small enough for both.
  const Outcome bundle = limited(32, "harness/null --bundle " + own + "/b.h5");
  EXPECT_EQ(bundle.code, 1) << bundle.output;
  EXPECT_NE(bundle.output.find("b.h5"), std::string::npos) << bundle.output;
  const Outcome json = limited(1, "harness/null 'data/packing$' --no_rooflines --benchmark_out=" + own + "/b.json");
  EXPECT_EQ(json.code, 1) << json.output;
  EXPECT_EQ(limited(2048, "checkpoint/write").code, 1);
  EXPECT_TRUE(fs::is_empty(own)) << fs::directory_iterator(own)->path();
}

TEST_F(Program, LeavesAValidBundleAndJson) {
  const Outcome o = run("--quick harness/null data/packing$ --pool 0.3 --budget 0.05 --bundle " + file("b.h5") +
                        " --benchmark_out=" + file("b.json") + " --benchmark_out_format=json");
  EXPECT_EQ(o.code, 0) << o.output;
  EXPECT_NE(o.output.find("data/packing"), std::string::npos) << o.output;
  for (const measure::Finding& f : measure::validate(file("b.h5"))) EXPECT_FALSE(f.error) << f.where << ": " << f.what;
  const checkpoint::Reader bundle(file("b.h5"));
  const std::vector<std::string> names = bundle.texts("/cases/name");
  // The roofline of the host's memory came along.
  EXPECT_EQ(names, (std::vector<std::string>{"data/memcpy", "harness/null", "data/packing"}));
  EXPECT_GE(bundle.reals("/samples/calls/time").size(), 15u);
  std::ifstream in(file("b.json"));
  const nlohmann::json report = nlohmann::json::parse(in);
  EXPECT_EQ(report.at("benchmarks").size(), 3u);
  // Google Benchmark keeps a pointer to the program's name, which must still be there after the last case.
  EXPECT_EQ(report.at("context").at("executable"), named("MYLOS_BENCH"));
}

TEST_F(Program, AnEarlierFileStaysUnlessToldOtherwise) {
  const std::string file_there = file("there");
  for (const char* output : {"--bundle=", "--benchmark_out="}) {
    const std::string arguments = "--quick harness/null --budget 0.05 " + (output + file_there);
    std::ofstream(file_there) << "precious";
    const Outcome refused = run(arguments);
    EXPECT_EQ(refused.code, 1) << output;
    EXPECT_NE(refused.output.find("--overwrite"), std::string::npos) << refused.output;
    EXPECT_EQ(text_of(file_there), "precious") << output;
    EXPECT_EQ(run(arguments + " --overwrite").code, 0) << output;
    EXPECT_NE(text_of(file_there), "precious") << output;
  }
}

TEST_F(Program, NoOutputTakesThePlaceOfAnotherOrOfWhatIsRead) {
  const std::string quick = "--quick harness/null --budget 0.05 --overwrite ", place = file("place");
  const Outcome twice = run(quick + "--bundle " + place + " --benchmark_out=" + file("./place"));
  EXPECT_EQ(twice.code, 2) << twice.output;
  EXPECT_NE(twice.output.find("are one file"), std::string::npos) << twice.output;
  EXPECT_FALSE(fs::exists(place));
  std::ofstream(place) << "precious";
  for (const char* output : {"--bundle=", "--benchmark_out="}) {
    const Outcome read = run(quick + "--products " + place + " " + output + place);
    EXPECT_EQ(read.code, 1) << read.output;
    EXPECT_NE(read.output.find("products that is read"), std::string::npos) << read.output;
    EXPECT_EQ(text_of(place), "precious") << output;
  }
}

TEST_F(Program, IsWhatMylosBenchStarts) {
  const Outcome o = run("bench --list harness/null", named("MYLOS"));
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.output, "harness/null\n");
  EXPECT_EQ(run("bench --no_such_flag", named("MYLOS")).code, 2);
}

}  // namespace
}  // namespace mylos::bench
