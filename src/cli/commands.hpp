// The subcommands of `mylos`, each in its own file. main.cpp reads the command line into these structs; a command returns the exit
// code and reports errors by throwing Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/detokenize.hpp"
#include "data/tokenize.hpp"
#include "measure/compare_bundles.hpp"
#include "train/generation.hpp"
#include "train/profile.hpp"
#include "train/profile_steps.hpp"

namespace mylos::cli {

// docs/first-run.md documents them.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kStopped = 3;   // train: by SIGINT or SIGTERM, everything written
inline constexpr int kDiverged = 4;  // train: loss or gradient norm not finite, the last good state written
inline constexpr int kSlower = 5;    // diff --fail-on-slower: a case is SLOWER (docs/benchmarks.md)

struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides;     // section.key=value
  std::vector<std::string> command_line;  // for the bundle
};
struct TrainArguments {
  ConfigArguments config;
  std::optional<train::ProfileRequest> profile;
};
int train(const TrainArguments& arguments);
int plan(const ConfigArguments& arguments, bool json);

struct ProfileArguments {
  ConfigArguments config;
  train::ProfileOptions options;
  std::string json, bundle;  // files to write; empty: none
};
int profile(const ProfileArguments& arguments);

struct TuneArguments {
  ConfigArguments config;
  std::string cache;  // empty: the usual file
  double seconds = 80;
  int candidates = 12;
};
int tune(const TuneArguments& arguments);

enum class ConfigFormat { toml, markdown, keys };
int config(const ConfigArguments& arguments, ConfigFormat format);

int tokenize(data::TokenizeOptions options);

struct DetokenizeArguments {
  data::DetokenizeOptions options;
  std::string format, dtype;  // empty: not stated
  std::string output;         // empty: stdout
};
int detokenize(const DetokenizeArguments& arguments);

struct DataInspectArguments {
  std::string file, format, dtype, tokenizer;
  std::int64_t first = 0, show = 64;
  bool json = false;
  bool sha256 = false;  // of a folder's shards; that of a single file is always computed
};
int data_inspect(const DataInspectArguments& arguments);

struct DataValidateArguments {
  std::vector<std::string> files;     // and globs; empty: those of the configuration
  std::string format, dtype, config;  // empty: not stated
  std::optional<std::int64_t> vocab;
  int threads = 0;
  bool no_sha256 = false;
};
int data_validate(const DataValidateArguments& arguments);

struct DataIndexArguments {
  std::vector<std::string> files;  // and globs
  std::string format, dtype;       // empty: not stated
  std::optional<std::int64_t> end_token;
  int threads = 0;
};
int data_index(const DataIndexArguments& arguments);

int data_plan(const ConfigArguments& arguments);

struct DiffArguments {
  measure::DiffOptions options;
  std::string threshold = "1%";
  std::vector<std::string> pairs;  // CASE_OF_A=CASE_OF_B
  bool fail_on_slower = false, json = false;
};
int diff(const DiffArguments& arguments);

int inspect(const std::string& file, bool json);
int validate(const std::vector<std::string>& files);
int generate(const train::GenerationOptions& options, int threads);
int bench(const std::vector<std::string>& arguments);     // replaces this process by mylos-bench
int campaign(const std::vector<std::string>& arguments);  // replaces this process by tools/campaign
int version();

}  // namespace mylos::cli
