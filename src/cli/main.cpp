// `mylos`: the command line, and nothing else. CLI11 is seen here only.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <iostream>
#include <new>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "base/text.hpp"
#include "base/usage.hpp"
#include "cli/commands.hpp"

namespace {

using namespace mylos;

// Messages are one line and steer no terminal, whatever a library or a file put into them.
int report(const std::string& message, int code) {
  std::string line = message;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::cout.flush();
  std::cerr << "mylos: " << printable(line) << '\n';
  return code;
}

// Overrides (--section.key=value) are set aside before CLI11 sees the rest: it knows no keys.
std::vector<std::string> take_overrides(std::vector<std::string>& arguments) {
  std::vector<std::string> overrides, rest;
  for (const std::string& a : arguments) {
    const std::size_t equals = a.find('='), dot = a.find('.');
    const bool dotted = a.starts_with("--") && dot != std::string::npos && dot < equals;
    if (dotted && equals == std::string::npos)
      throw CLI::ExtrasError(a + " has no value: write " + a + "=VALUE", CLI::ExitCodes::ExtrasError);
    if (dotted)
      overrides.push_back(a.substr(2));
    else
      rest.push_back(a);
  }
  arguments = rest;
  return overrides;
}

int run(int argc, char** argv) {
  CLI::App app("mylos pretrains Llama-class language models and keeps every measurement.", "mylos");
  app.require_subcommand(1);
  std::function<int()> command;
  cli::ConfigArguments config;
  config.command_line.assign(argv, argv + argc);

  auto* train = app.add_subcommand("train", "train a model: mylos train CONFIG.toml [--section.key=value ...]");
  train->add_option("config", config.path, "configuration (TOML)")->required();
  bool profiles = false;
  mylos::train::ProfileRequest request;
  auto* profile_flag =
      train->add_flag("--profile", profiles, "record every kernel of some steps; leaves a bundle of kind profile");
  train->add_option("--profile-steps", request.steps, "steps to record; default 3")
      ->check(CLI::Range(std::int64_t(1), mylos::train::ProfileRequest::kMostSteps))
      ->needs(profile_flag);
  train->add_option("--profile-after", request.after, "the step before them; default 10, less in a shorter run")
      ->check(CLI::PositiveNumber)
      ->needs(profile_flag);
  train->add_option("--profile-output", request.bundle, "bundle; default: output.bundle ending in .profile.h5")
      ->needs(profile_flag);
  train->add_option("--profile-trace", request.timeline, "timeline to write, JSON for Perfetto or chrome://tracing")
      ->needs(profile_flag);
  train->callback([&] {
    command = [&] { return cli::train({config, profiles ? std::optional(request) : std::nullopt}); };
  });

  bool json = false;
  auto* plan = app.add_subcommand("plan", "print parameters and the memory plan of a configuration");
  plan->add_option("config", config.path, "configuration (TOML)")->required();
  plan->add_flag("--json", json, "as JSON");
  plan->callback([&] { command = [&] { return cli::plan(config, json); }; });

  cli::ProfileArguments profiling;
  auto* profile = app.add_subcommand("profile", "time every op of a training step");
  profile->add_option("config", config.path, "configuration (TOML); without data.train: random tokens")->required();
  profile->add_option("--steps", profiling.options.steps, "steps to measure")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  profile->add_option("--warmup", profiling.options.warmup, "steps before them")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  profile->add_option("--json", profiling.json, "file for the table as JSON");
  profile->add_option("-o,--output", profiling.bundle, "bundle to write");
  profile->callback([&] {
    command = [&] {
      profiling.config = config;
      return cli::profile(profiling);
    };
  });

  cli::TuneArguments tuning;
  auto* tune = app.add_subcommand("tune", "measure which algorithms its matrix products run fastest with (GPU)");
  tune->add_option("config", config.path, "configuration (TOML)")->required();
  tune->add_option("--cache", tuning.cache, "file to add to; default: ~/.cache/mylos/products.json");
  tune->add_option("--seconds", tuning.seconds, "of measuring, all products together")->capture_default_str();
  tune->add_option("--candidates", tuning.candidates, "algorithms a product, in the library's order")
      ->capture_default_str();
  tune->callback([&] {
    command = [&] {
      tuning.config = config;
      return cli::tune(tuning);
    };
  });

  bool markdown = false, keys = false;
  auto* config_command = app.add_subcommand("config", "print a configuration with all defaults filled in");
  config_command->add_option("config", config.path, "configuration (TOML); none: the defaults");
  auto* markdown_flag = config_command->add_flag("--markdown", markdown, "every key with its meaning, as Markdown");
  config_command->add_flag("--keys", keys, "every key with its meaning, one a line")->excludes(markdown_flag);
  config_command->callback([&] {
    command = [&] {
      return cli::config(config, markdown ? cli::ConfigFormat::markdown
                                 : keys   ? cli::ConfigFormat::keys
                                          : cli::ConfigFormat::toml);
    };
  });

  data::TokenizeOptions tokenize_options;
  auto* tokenize = app.add_subcommand("tokenize", "turn text or JSONL into token shards");
  tokenize->add_option("inputs", tokenize_options.inputs, "files, globs or folders")->required();
  tokenize->add_option("--out", tokenize_options.out, "folder for the shards")->required();
  tokenize
      ->add_option("--tokenizer", tokenize_options.tokenizer,
                   "byte, a tokenizer.json, a SentencePiece .model, or train:V")
      ->capture_default_str();
  tokenize->add_option("--extension", tokenize_options.extensions, "of the files that a folder is searched for")
      ->capture_default_str();
  tokenize->add_option("--jsonl-field", tokenize_options.jsonl_field, "field of a JSONL line that holds the text")
      ->capture_default_str();
  tokenize->add_option("--validation-fraction", tokenize_options.validation_fraction, "of the documents, 0 to 0.5")
      ->capture_default_str();
  tokenize->add_option("--shard-tokens", tokenize_options.shard_tokens, "tokens of a shard")->capture_default_str();
  tokenize->add_flag("--skip-invalid", tokenize_options.skip_invalid, "leave out files that are not UTF-8");
  tokenize->add_flag("--allow-lossy", tokenize_options.allow_lossy,
                     "take a tokenizer that does not give back every text, and record that");
  tokenize->add_option("--jobs", tokenize_options.jobs, "processes that encode; 0: one a core")->capture_default_str();
  tokenize->callback([&] { command = [&] { return cli::tokenize(tokenize_options); }; });

  cli::DetokenizeArguments text;
  auto* detokenize = app.add_subcommand("detokenize", "write the text behind a token file, byte for byte");
  detokenize->add_option("file", text.options.file, "token file")->required();
  detokenize->add_option("--first", text.options.first, "token to begin with")->capture_default_str();
  detokenize->add_option("--count", text.options.count, "tokens; -1: to the end")->capture_default_str();
  detokenize->add_option("--tokenizer", text.options.tokenizer,
                         "byte, a tokenizer.json or a .model; default: the sidecar's");
  detokenize->add_option("--format", text.format, "raw, npy, llmc or megatron; default: as recorded with the file");
  detokenize->add_option("--dtype", text.dtype, "u16 or u32, for raw tokens without a sidecar");
  detokenize->add_option("-o,--output", text.output, "file to write; default: stdout");
  detokenize->callback([&] { command = [&] { return cli::detokenize(text); }; });

  cli::DataInspectArguments data_arguments;
  auto* data = app.add_subcommand("data", "look into token files");
  data->require_subcommand(1);
  auto* data_inspect = data->add_subcommand("inspect", "show and check a token file, or a folder that tokenize made");
  data_inspect->add_option("file", data_arguments.file, "token file or folder")->required();
  const char* const format_help = "raw, npy, llmc or megatron; default: as recorded with the file";
  const char* const dtype_help = "u16 or u32, for raw tokens without a sidecar";
  data_inspect->add_option("--format", data_arguments.format, format_help);
  data_inspect->add_option("--dtype", data_arguments.dtype, dtype_help);
  data_inspect->add_option("--tokenizer", data_arguments.tokenizer, "to show text; default: the sidecar's");
  data_inspect->add_option("--first", data_arguments.first, "where the excerpt begins")->capture_default_str();
  data_inspect->add_option("--show", data_arguments.show, "tokens of the excerpt")->capture_default_str();
  data_inspect->add_flag("--sha256", data_arguments.sha256, "hold the shards of a folder against their sums");
  data_inspect->add_flag("--json", data_arguments.json, "as JSON");
  data_inspect->callback([&] { command = [&] { return cli::data_inspect(data_arguments); }; });

  cli::DataValidateArguments validating;
  auto* data_validate = data->add_subcommand("validate", "check every token of token files");
  data_validate->add_option("files", validating.files, "token files and globs; default: those of --config");
  data_validate->add_option("--vocab", validating.vocab, "every token must be below it; default: the sidecar's");
  data_validate->add_option("--config", validating.config, "configuration whose model.vocab, format and files count");
  data_validate->add_option("--format", validating.format, format_help);
  data_validate->add_option("--dtype", validating.dtype, dtype_help);
  data_validate->add_option("--threads", validating.threads, "that read; 0: all cores")->capture_default_str();
  data_validate->add_flag("--no-sha256", validating.no_sha256, "leave out the sums that sidecars state");
  data_validate->callback([&] { command = [&] { return cli::data_validate(validating); }; });

  cli::DataIndexArguments indexing;
  auto* data_index = data->add_subcommand("index", "write where documents end beside token files: FILE.documents");
  data_index->add_option("files", indexing.files, "token files and globs")->required();
  data_index->add_option("--end-token", indexing.end_token, "it ends a document; default: the sidecar's end_of_text");
  data_index->add_option("--format", indexing.format, format_help);
  data_index->add_option("--dtype", indexing.dtype, dtype_help);
  data_index->add_option("--threads", indexing.threads, "that read; 0: all cores")->capture_default_str();
  data_index->callback([&] { command = [&] { return cli::data_index(indexing); }; });

  auto* data_plan = data->add_subcommand("plan", "show sources, packing and mixture of a configuration");
  data_plan->add_option("config", config.path, "configuration (TOML)")->required();
  data_plan->callback([&] { command = [&] { return cli::data_plan(config); }; });

  std::string file;
  auto* inspect = app.add_subcommand("inspect", "show what a bundle or weight file holds");
  inspect->add_option("file", file, "HDF5 file")->required();
  inspect->add_flag("--json", json, "as JSON");
  inspect->callback([&] { command = [&] { return cli::inspect(file, json); }; });

  std::vector<std::string> files;
  auto* validate = app.add_subcommand("validate", "check bundles against the schema");
  validate->add_option("files", files, "HDF5 files")->required();
  validate->callback([&] { command = [&] { return cli::validate(files); }; });

  cli::DiffArguments comparing;
  auto* diff = app.add_subcommand("diff", "say which cases of B are faster than in A, slower or the same");
  diff->add_option("a", comparing.options.a, "bundle of benchmarks or of a training run, or a folder of rounds")
      ->required();
  diff->add_option("b", comparing.options.b, "the other one, of the same kind")->required();
  auto* case_option = diff->add_option("--case", comparing.options.pattern, "regular expression; default: all cases");
  diff->add_option("--pair", comparing.pairs, "CASE_OF_A=CASE_OF_B: compare cases of different names")
      ->excludes(case_option);
  diff->add_option("--threshold", comparing.threshold, "the least change that matters")->capture_default_str();
  diff->add_flag("--paired", comparing.options.compare.paired, "round i of A ran beside round i of B (tools/compare)");
  diff->add_flag("--fail-on-slower", comparing.fail_on_slower, "exit status 5 when a case is SLOWER");
  diff->add_flag("--json", comparing.json, "as JSON");
  diff->callback([&] { command = [&] { return cli::diff(comparing); }; });

  train::GenerationOptions generation;
  int threads = 0;
  auto* generate = app.add_subcommand("generate", "write text with trained weights");
  generate->add_option("--weights", generation.weights, "weight file of a run")->required();
  generate->add_option("--prompt", generation.prompt, "how the text begins");
  generate->add_option("--tokens", generation.tokens, "most tokens to write")->capture_default_str();
  generate->add_option("--temperature", generation.sampling.temperature, "0: always the most likely token")
      ->capture_default_str();
  generate->add_option("--top-k", generation.sampling.top_k, "draw from the K most likely; 0: from all")
      ->capture_default_str();
  generate->add_option("--seed", generation.sampling.seed, "of the random numbers")
      ->check(CLI::Range(std::uint64_t(0), std::uint64_t(1) << 53))
      ->capture_default_str();
  generate->add_option("--window", generation.window, "tokens the model looks back; 0: as trained")
      ->capture_default_str();
  generate->add_option("--tokenizer", generation.tokenizer,
                       "byte, a tokenizer.json or a .model; default: what the weight file names");
  generate->add_option("--threads", threads, "CPU threads; 0: OMP_NUM_THREADS, else all cores")->capture_default_str();
  generate->callback([&] { command = [&] { return cli::generate(generation, threads); }; });

  auto* bench = app.add_subcommand("bench", "time components: mylos bench [PATTERN...] [--list] [--bundle FILE]");
  bench->set_help_flag();  // mylos-bench has its own
  bench->prefix_command();
  bench->callback([&] { command = [&] { return cli::bench(bench->remaining()); }; });

  auto* campaign = app.add_subcommand("campaign", "run, show and report many runs: run|status|report|new NAME");
  campaign->set_help_flag();  // tools/campaign has its own
  campaign->prefix_command();
  campaign->callback([&] { command = [&] { return cli::campaign(campaign->remaining()); }; });

  auto* version = app.add_subcommand("version", "print version, commit and libraries");
  version->callback([&] { command = [] { return cli::version(); }; });

  try {
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    // CLI11 would only say that a command is missing.
    if (!arguments.empty() && !arguments[0].starts_with('-') &&
        app.get_subcommands([&](CLI::App* s) { return s->check_name(arguments[0]); }).empty()) {
      std::vector<std::string> names;
      for (const CLI::App* s : app.get_subcommands([](CLI::App*) { return true; })) names.push_back(s->get_name());
      const std::string near = nearest_name(arguments[0], names);
      return report("unknown command '" + arguments[0] + "'" +
                        (near.empty() ? "; the commands are " + join(names, ", ") : "; did you mean '" + near + "'?"),
                    cli::kUsage);
    }
    const bool takes_overrides =
        !arguments.empty() &&
        (arguments[0] == "train" || arguments[0] == "plan" || arguments[0] == "profile" || arguments[0] == "tune" ||
         arguments[0] == "config" || (arguments[0] == "data" && arguments.size() > 1 && arguments[1] == "plan"));
    if (takes_overrides) config.overrides = take_overrides(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return report(std::string(e.what()) + " (mylos --help lists commands and options)", cli::kUsage);
  }
  const int code = command();
  // A full disk shows only now; a pipe that was closed on purpose ends the process by SIGPIPE and never gets here.
  std::cout.flush();
  const bool has_files = app.got_subcommand(train);  // lines for people may be lost, the run's files are what counts
  if (!std::cout.good() && !has_files)
    return report("not all of the output could be written; is the disk full?", cli::kFailed);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  mylos::full_files_are_errors();
  try {
    return run(argc, argv);
  } catch (const mylos::UsageError& e) {
    return report(e.what(), mylos::cli::kUsage);
  } catch (const mylos::Error& e) {
    return report(e.what(), mylos::cli::kFailed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", mylos::cli::kFailed);
  } catch (const std::exception& e) {
    return report(std::string("internal error: ") + e.what(), mylos::cli::kFailed);
  }
}
