// Runs the program itself: messages, exit codes, and that bad input never crashes it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;   // exit code
  int signal = 0;  // that ended it
  std::string out, err;
};

std::string read(const fs::path& path) {
  if (!fs::is_regular_file(path)) return {};  // /dev/full can be read without end
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class CommandLine : public ::testing::Test {
 protected:
  CommandLine() {
    std::string pattern = (fs::temp_directory_path() / "mylos_cli_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
  }
  ~CommandLine() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return file(name);
  }

  pid_t start(std::vector<std::string> arguments) const {
    const char* program = std::getenv("MYLOS");
    if (program == nullptr) throw std::runtime_error("MYLOS must name the program under test");
    arguments.insert(arguments.begin(), program);
    const pid_t child = fork();
    if (child == 0) {
      if (std::freopen(file("out").c_str(), "w", stdout) == nullptr ||
          std::freopen(file("err").c_str(), "w", stderr) == nullptr)
        _exit(99);
      std::vector<char*> argv;
      for (std::string& a : arguments) argv.push_back(a.data());
      argv.push_back(nullptr);
      execv(program, argv.data());
      _exit(98);
    }
    return child;
  }
  Outcome finish(pid_t child) const {
    int status = 0;
    waitpid(child, &status, 0);
    Outcome o;
    if (WIFEXITED(status)) o.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) o.signal = WTERMSIG(status);
    o.out = read(file("out"));
    o.err = read(file("err"));
    return o;
  }
  Outcome run(const std::vector<std::string>& arguments) const { return finish(start(arguments)); }

  // One line "mylos: ..." on stderr that has `part`, and this code.
  void expect_error(const std::vector<std::string>& arguments, int code, const std::string& part) const {
    const Outcome o = run(arguments);
    std::string command;
    for (const auto& a : arguments) command += " " + a;
    EXPECT_EQ(o.code, code) << command << "\n" << o.err;
    EXPECT_EQ(o.err.rfind("mylos: ", 0), 0u) << command << "\n" << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << command << "\n" << o.err;
    EXPECT_NE(o.err.find(part), std::string::npos) << command << "\n" << o.err;
  }

  // A byte-token file of a repeated sentence, and a configuration that trains on it.
  std::string tiny() const {
    std::string text;
    while (text.size() < 9000) text += "the mill grinds the grain. ";
    for (const char* name : {"train", "validation"}) {
      std::string bytes;
      for (const char c : text) bytes += {c, '\0'};
      write(std::string(name) + ".bin", bytes);
      write(
          std::string(name) + ".bin.json",
          R"({"format": "mylos-tokens", "version": 1, "dtype": "u16", "vocab": 257, "tokenizer": "byte", "end_of_text": 256, "text_bytes": )" +
              std::to_string(text.size()) + "}");
    }
    return write("tiny.toml",
                 "[model]\ndim = 16\nlayers = 1\nheads = 2\nffn = 32\nvocab = 257\nmax_seq_len = 16\n"
                 "[train]\nsteps = 3\nbatch = 2\nsequence = 16\n[eval]\nfinal_samples = 4\n[data]\ntrain = [\"" +
                     file("train.bin") + "\"]\nvalidation = [\"" + file("validation.bin") +
                     "\"]\n[output]\nbundle = \"" + file("run.h5") + "\"\n");
  }

  fs::path folder_;
};

TEST_F(CommandLine, UsageErrors) {
  expect_error({}, 2, "subcommand");
  expect_error({"trian"}, 2, "did you mean 'train'?");
  expect_error({"qqqqqqqqqqqqq"}, 2, "the commands are train");
  expect_error({"train"}, 2, "config");
  expect_error({"train", "a.toml", "--nonsense"}, 2, "--nonsense");
  expect_error({"train", "a.toml", "b.toml"}, 2, "b.toml");
  expect_error({"train", "a.toml", "--train.steps", "3"}, 2, "write --train.steps=VALUE");
  expect_error({"data"}, 2, "subcommand");
  expect_error({"data", "inspct"}, 2, "did you mean 'data inspect'?");
  expect_error({"data", "qqqqqqqqqqqqq"}, 2, "the commands are data inspect");
  expect_error({"tokenize", write("a.txt", "words"), "--out", file("b"), "--tokenizer", "train:abc"}, 2, "'train:abc'");
  expect_error({"generate"}, 2, "--weights");
  expect_error({"generate", "--weights", "x", "--tokens", "many"}, 2, "many");
  expect_error({"config", "--markdown", "--keys"}, 2, "--keys");
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("generate"), std::string::npos);
  EXPECT_EQ(run({"train", "--help"}).code, 0);
}

TEST_F(CommandLine, ConfigurationErrors) {
  const std::string config = tiny();
  for (const char* command : {"train", "plan", "profile", "config"}) {
    expect_error({command, file("none.toml")}, 1, "does not exist");
    expect_error({command, folder_.string()}, 1, "is not a file");
    expect_error({command, config, "--train.stps=3"}, 1, "unknown key train.stps; did you mean train.steps?");
    expect_error({command, config, "--train.steps=x"}, 1, "train.steps must be an integer");
    expect_error({command, config, "--schedule.learning_rate=nan"}, 1, "schedule.learning_rate");
    expect_error({command, config, "--model.heads=3"}, 1, "model.heads");
    expect_error({command, write("bad.toml", "[train\n")}, 1, "bad.toml:1");
    expect_error({command, write("binary.toml", std::string("\x7f"
                                                            "ELF\0\1\2",
                                                            7))},
                 1, "binary.toml");
  }
  expect_error({"train", config, "--data.train=" + file("gone-*.bin")}, 1, "gone-*.bin");
  expect_error({"train", config, "--model.vocab=100"}, 1, "vocab");
}

TEST_F(CommandLine, FilesThatAreNotWhatTheyShouldBe) {
  const std::string junk = write("junk.h5", "this is not HDF5"), empty = write("empty.h5", "");
  for (const std::string& path : {junk, empty, file("none.h5"), folder_.string()}) {
    expect_error({"inspect", path}, 1, fs::path(path).filename().string());
    expect_error({"generate", "--weights", path, "--prompt", "x"}, 1, fs::path(path).filename().string());
    const Outcome o = run({"validate", path});
    EXPECT_EQ(o.code, 1) << o.out << o.err;
    EXPECT_EQ(o.signal, 0);
  }
  expect_error({"data", "inspect", write("odd.bin", "abc")}, 1, "odd.bin");
  expect_error({"data", "inspect", file("none.bin"), "--dtype", "u16"}, 1, "none.bin");
  expect_error({"data", "inspect", write("x.npy", "\x93NUMPY")}, 1, "x.npy");
  expect_error({"data", "inspect", write("y.bin", "abcd"), "--dtype", "f32"}, 2, "tokens are u16 or u32");
  expect_error({"data", "inspect", file("y.bin"), "--dtype", "u17"}, 2, "--dtype is 'u17'; tokens are u16 or u32");
  expect_error({"data", "inspect", file("y.bin"), "--dtype", "u16", "--first", "2"}, 1,
               file("y.bin") + "' holds 2 tokens");
  expect_error({"tokenize", file("none.txt"), "--out", file("o")}, 1, "none.txt");
}

TEST_F(CommandLine, TheConfigurationPageIsUpToDate) {
  const Outcome o = run({"config", "--markdown"});
  ASSERT_EQ(o.code, 0);
  const char* page = std::getenv("MYLOS_CONFIGURATION_PAGE");
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(o.out, read(page)) << "run: mylos config --markdown > docs/configuration.md";
}

TEST_F(CommandLine, PrintedConfigurationIsAConfiguration) {
  const Outcome first = run({"config", tiny(), "--train.steps=5"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("steps = 5"), std::string::npos);
  const Outcome second = run({"config", write("again.toml", first.out)});
  EXPECT_EQ(second.out, first.out) << second.err;
  const Outcome keys = run({"config", "--keys"});
  EXPECT_NE(keys.out.find("schedule.learning_rate = "), std::string::npos);
}

TEST_F(CommandLine, Plan) {
  const Outcome text = run({"plan", tiny()});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("optimizer"), std::string::npos);
  const Outcome json = run({"plan", tiny(), "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_GT(nlohmann::json::parse(json.out)["parameters"]["total"].get<std::int64_t>(), 0);
}

TEST_F(CommandLine, Profile) {
  const std::string config = tiny();
  const Outcome o = run({"profile", config, "--data.train=[]", "--steps", "2", "--warmup", "1", "--json",
                         file("ops.json"), "-o", file("ops.h5")});
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* part : {"matmul/qkv", "random tokens", "memory-bound", "between ops"})
    EXPECT_NE(o.out.find(part), std::string::npos) << o.out;
  const auto j = nlohmann::json::parse(read(file("ops.json")));
  EXPECT_GT(j["step_s"].get<double>(), 0);
  EXPECT_GT(j["ops"].size(), 10u);
  EXPECT_EQ(run({"validate", file("ops.h5")}).code, 0);
  EXPECT_FALSE(fs::exists(file("run.h5"))) << "a profile writes nothing but what it is told to";
  expect_error({"profile", config, "-o", file("ops.h5")}, 1, "output.overwrite=true");
  expect_error({"profile", config, "--steps", "0"}, 2, "'0' is no whole number from 1 to 10000");
  expect_error({"profile", config, "-o", config, "--output.overwrite=true"}, 1, "is the configuration");
  expect_error({"profile", config, "-o", "/dev/null", "--output.overwrite=true"}, 1, "not a regular file");
  expect_error({"profile", config, "-o", file("same"), "--json", file("./same")}, 2, "are one file; name two");
}

TEST_F(CommandLine, TrainWithAProfileOfKernels) {
  const std::string config = tiny();
  const Outcome o = run({"train", config, "--profile", "--profile-steps", "1", "--profile-trace", file("t.json")});
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* part : {"profile of steps 3 to 3", "memory-bound", "idle", "timeline "})
    EXPECT_NE(o.out.find(part), std::string::npos) << o.out;
  EXPECT_EQ(run({"validate", file("run.profile.h5"), file("run.h5")}).code, 0);
  EXPECT_NE(run({"inspect", file("run.profile.h5")}).out.find("kernel, region"), std::string::npos);
  EXPECT_GT(nlohmann::json::parse(read(file("t.json")))["traceEvents"].size(), 10u);
  expect_error({"train", config, "--profile-steps", "2"}, 2, "--profile");
  expect_error({"train", config, "--profile", "--profile-steps", "101"}, 2, "from 1 to 100");
  const std::string again = "--output.overwrite=true";
  expect_error({"train", config, again, "--profile", "--profile-after", "3"}, 1, "after step 3 cannot be profiled");
  expect_error({"train", config, again, "--profile", "--profile-steps", "50"}, 1,
               "50 steps after step 1 cannot be profiled");
  for (const char* wrong : {"-1", "0", "99999999999999999999", "2.5", "x"})
    for (const auto& [option, most] : {std::pair("--profile-after", "1000000000"), std::pair("--profile-steps", "100")})
      expect_error({"train", config, again, "--profile", option, wrong}, 2,
                   std::string(option) + ": '" + wrong + "' is no whole number from 1 to " + most + "; ");
  expect_error({"train", config, again, "--profile", "--profile-output", file("./run.h5")}, 1, "is an output twice");
}

TEST_F(CommandLine, TokenizeTrainInspectValidateGenerate) {
  std::string text;
  while (text.size() < 3000) text += "the mill grinds the grain. ";
  write("a.txt", text);
  write("b.txt", text);
  Outcome o = run({"tokenize", file("a.txt"), file("b.txt"), "--out", file("tokens"), "--validation-fraction", "0.5"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(read(file("tokens/manifest.json")))["complete"], true);
  o = run({"detokenize", file("tokens/train-00000.bin")});
  EXPECT_EQ(o.out, text);
  o = run({"detokenize", file("tokens/train-00000.bin"), "--first", "4", "--count", "4", "-o", file("part.txt")});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(read(file("part.txt")), "mill");
  expect_error({"detokenize", file("tokens/train-00000.bin"), "--first", "-1"}, 2,
               "--first: '-1' is no whole number from 0");
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  expect_error({"detokenize", file("tokens/train-00000.bin"), "-o", file("pipe")}, 1, "no file that can be replaced");
  for (const char* read : {"train-00000.bin", "train-00000.bin.json", "train-00000.bin.documents"})
    expect_error({"detokenize", file("tokens/train-00000.bin"), "-o", file(std::string("tokens/../tokens/") + read)}, 1,
                 "which is read");
  expect_error({"data", "index", file("tokens/train-00000.bin"), "--end-token", "65536"}, 1, "is not below 65536");
  o = run({"data", "inspect", file("tokens/train-00000.bin"), "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(nlohmann::json::accept(o.out)) << o.out;
  o = run({"data", "inspect", file("tokens"), "--sha256"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("sound"), std::string::npos) << o.out;
  EXPECT_TRUE(nlohmann::json::accept(run({"data", "inspect", file("tokens"), "--json"}).out));
  expect_error({"data", "inspect", file("tokens"), "--first", "3"}, 2, "is a folder");
  expect_error({"data", "inspect", file("")}, 1, "was not made by `mylos tokenize`");
  o = run({"train", tiny(), "--data.train=" + file("tokens/train-*.bin"),
           "--data.validation=" + file("tokens/validation-*.bin")});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("step 3/3"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("bits per byte"), std::string::npos) << o.out;
  o = run({"inspect", file("run.h5")});
  ASSERT_EQ(o.code, 0) << o.err;
  o = run({"inspect", file("run.h5"), "--json"});
  EXPECT_TRUE(nlohmann::json::accept(o.out)) << o.out;
  o = run({"validate", file("run.h5")});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  o = run({"generate", "--weights", file("run.weights.h5"), "--prompt", "the mill", "--tokens", "20", "--seed", "3"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out.rfind("the mill", 0), 0u) << o.out;
  EXPECT_EQ(
      run({"generate", "--weights", file("run.weights.h5"), "--prompt", "the mill", "--tokens", "20", "--seed", "3"})
          .out,
      o.out);
  expect_error({"train", tiny()}, 1, "output.overwrite=true");
}

TEST_F(CommandLine, SigtermStopsCleanly) {
  const pid_t child = start({"train", tiny(), "--train.steps=1000000"});
  for (int i = 0; i < 600 && read(file("out")).find("step       1/") == std::string::npos; ++i) usleep(100000);
  kill(child, SIGTERM);
  const Outcome o = finish(child);
  EXPECT_EQ(o.signal, 0);
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_NE(o.err.find("mylos: stopped by SIGTERM after step"), std::string::npos) << o.err;
  EXPECT_EQ(run({"validate", file("run.h5")}).code, 0);
  EXPECT_EQ(run({"generate", "--weights", file("run.weights.h5"), "--prompt", "x", "--tokens", "2"}).code, 0);
}

TEST_F(CommandLine, DivergenceHasItsOwnExitCode) {
  expect_error({"train", tiny(), "--schedule.learning_rate=1e25"}, 4, "schedule.learning_rate");
  EXPECT_EQ(run({"validate", file("run.h5")}).code, 0);
}

TEST_F(CommandLine, KilledRunsLeaveAReadableBundle) {
  const pid_t child = start({"train", tiny(), "--train.steps=1000000"});
  for (int i = 0; i < 600 && read(file("out")).find("step       1/") == std::string::npos; ++i) usleep(100000);
  kill(child, SIGKILL);
  EXPECT_EQ(finish(child).signal, SIGKILL);
  const Outcome o = run({"validate", file("run.h5")});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_EQ(run({"inspect", file("run.h5")}).code, 0);
}

TEST_F(CommandLine, FullDisksAreErrorsAndNoCrashes) {
  const std::string config = tiny();
  fs::remove(file("out"));
  fs::create_symlink("/dev/full", file("out"));
  expect_error({"config", config}, 1, "is the disk full?");
  expect_error({"train", config}, 1, "is the disk full? The run has ended, its files are whole");
  EXPECT_EQ(run({"validate", file("run.h5")}).code, 1) << "its own lines are lost";
  fs::remove(file("out"));
  EXPECT_EQ(run({"validate", file("run.h5"), file("run.weights.h5")}).code, 0);
  fs::remove(file("run.weights.h5"));
  // As a disk with room for so many bytes: the children inherit limit and ignored signal.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t room : {2'000, 24'000, 30'000, 36'000}) {
    const rlimit limit{room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const Outcome o = run({"train", config, "--output.overwrite=true"});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(o.signal, 0) << o.err;
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_EQ(o.err.rfind("mylos: ", 0), 0u) << o.err;
    EXPECT_FALSE(fs::exists(file("run.weights.h5")));
    if (fs::exists(file("run.h5"))) {
      EXPECT_EQ(run({"validate", file("run.h5")}).code, 0);
    }
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
  }
  std::signal(SIGXFSZ, handler);
}

TEST_F(CommandLine, MoreThreadsThanThereIsRoomFor) {
  const std::string config = tiny();
  expect_error({"train", config, "--train.threads=4096"}, 1, "train.threads is 4096; it must be at most 512");
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const std::string before = threads ? threads : "";
  setenv("OMP_NUM_THREADS", "99999", 1);
  const Outcome o = run({"plan", config});
  threads ? setenv("OMP_NUM_THREADS", before.c_str(), 1) : unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(o.signal, 0);
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST_F(CommandLine, TokenizeSaysWhatIsWrongWithItsFolderAndText) {
  write("a.txt", "text");
  write("b.txt", "\xff\xfe");
  expect_error({"tokenize", file("a.txt"), "--out", file("a.txt")}, 1, "name another with --out");
  expect_error({"tokenize", file("a.txt"), "--out", file("j"), "--jobs", "-1"}, 2,
               "--jobs: '-1' is no whole number from 0 to 1024; 0 starts one a core");
  expect_error({"tokenize", file("a.txt"), "--out", "/proc/none"}, 1, "name another with --out");
  for (const char* content : {"[model]\ndim = 3\n", "[]"})
    expect_error({"tokenize", file("a.txt"), "--out", file("t"), "--validation-fraction", "0", "--tokenizer",
                  write("wrong.json", content)},
                 1, file("wrong.json") + "' is no tokenizer.json");
  const Outcome o = run(
      {"tokenize", file("a.txt"), file("b.txt"), "--out", file("o"), "--skip-invalid", "--validation-fraction", "0"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("1 files that are not UTF-8"), std::string::npos) << o.out;
}

// One line a file, exit status 1 when one of them fails, and the rest is checked all the same.
TEST_F(CommandLine, DataValidate) {
  const std::string good = write("a.bin", "abcdef"), bad = write("b.bin", "ab\xff\x7f");
  Outcome o = run({"data", "validate", good, "--dtype", "u16", "--vocab", "30000"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("a.bin: sound: raw, 3 u16 tokens, largest 26213 of 30000"), std::string::npos) << o.out;
  write("run.toml", "[model]\nvocab = 30000\n[data]\ntrain = ['" + file("*.bin") + "']\ndtype = 'u16'\n");
  o = run({"data", "validate", bad, file("none.bin"), good, "--dtype", "u16", "--vocab", "30000"});
  EXPECT_EQ(o.code, 1);
  for (const char* part :
       {"b.bin: FAILED: token 32767 at position 1 ", "none.bin: FAILED: no file matches", "a.bin: sound"})
    EXPECT_NE(o.out.find(part), std::string::npos) << o.out;
  o = run({"data", "validate", "--config", file("run.toml")});
  EXPECT_EQ(o.code, 1);
  for (const char* part : {"a.bin: sound", "b.bin: FAILED"}) EXPECT_NE(o.out.find(part), std::string::npos) << o.out;
  expect_error({"data", "validate"}, 2, "--config");
  expect_error({"data", "validate", good, "--format", "zip"}, 2, "raw, npy, llmc, megatron");
  o = run({"data", "validate", good});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("a.bin: FAILED: "), std::string::npos) << o.out;
  write("mix.toml", "[model]\nvocab = 30000\n[data]\ndtype = 'u16'\n[data.sources.good]\nfiles = ['" + good +
                        "']\n[data.sources.bad]\nfiles = ['" + bad + "']\ndtype = 'u32'\n");
  o = run({"data", "validate", "--config", file("mix.toml")});
  EXPECT_EQ(o.code, 1);
  for (const char* part : {"a.bin: sound: raw, 3 u16", "b.bin: FAILED: token 2147443297"})
    EXPECT_NE(o.out.find(part), std::string::npos) << o.out;
  EXPECT_EQ(run({"data", "inspect", good, "--format", "raw", "--dtype", "u16"}).code, 0);
  expect_error({"data", "inspect", good, "--format", "llmc"}, 1, "too few for an llm.c shard");
}

// "aabbcc...": documents of two tokens and their end, in a file that has no sidecar.
TEST_F(CommandLine, DataIndexAndPlan) {
  std::string tokens;
  for (int d = 0; d < 100; ++d) tokens += std::string("\1\0\2\0\3\0", 6);
  const std::string path = write("a.bin", tokens);
  expect_error({"data", "index", path, "--dtype", "u16"}, 1, "--end-token");
  Outcome o = run({"data", "index", path, "--dtype", "u16", "--end-token", "3"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("a.bin.documents: 100 documents end with token 3"), std::string::npos) << o.out;
  write(
      "mix.toml",
      "[model]\nvocab = 10\n[train]\nsequence = 8\nbatch = 5\nsteps = 10\n[data]\ndtype = 'u16'\npacking = 'best_fit'\n"
      "document_token = 3\n[data.sources.a]\nfiles = ['" +
          path + "']\nweight = 1\n[data.sources.b]\nfiles = ['" + path +
          "']\nweight = 1\n[[data.phases]]\nstart_step = 4\nweights = {b = 1}\nlearning_rate = 0.5\n");
  o = run({"data", "plan", file("mix.toml"), "--data.sources.b.weight=3"});
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* part :
       {"a  300 tokens, 50 samples an epoch, 75.00 % filled with 100 documents, weight 0.2500, 0.1 epochs",
        "weight 0.7500, 0.9 epochs in 10 steps", "from step 4  learning rate x 0.5, weights b 1.0000",
        "5 samples of 8 tokens a step, packed as u16"})
    EXPECT_NE(o.out.find(part), std::string::npos) << o.out;
  write("a.bin", tokens + tokens);
  expect_error({"data", "plan", file("mix.toml")}, 1, "a.bin.documents' was made of a file of 600 bytes");
  write("a.bin.documents", "");
  expect_error({"data", "plan", file("mix.toml")}, 1, "index of documents '" + path + ".documents' is empty");
}

TEST_F(CommandLine, AMegatronDataSetNeedsNoIndex) {
  const auto number = [](std::int64_t value, std::size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  const std::string tokens = write("m.bin", std::string("\1\0\2\0\3\0", 6));
  write("m.idx", std::string("MMIDIDX\0\0", 9) + number(1, 8) + number(8, 1) + number(1, 8) + number(2, 8) +
                     number(3, 4) + number(0, 8) + number(0, 8) + number(1, 8));
  expect_error({"data", "index", tokens}, 1, tokens + "' is a Megatron data set, whose .idx says where");
  expect_error({"data", "index", file("m.idx")}, 1, "is the index of a Megatron data set; name the .bin");
}

}  // namespace
