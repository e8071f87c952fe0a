// Training, and what is known before it and made of it.
#include <memory>

#include "cli/options.hpp"

namespace mylos::cli {

void add_training_commands(CLI::App& app, Chosen& chosen) {
  struct State {
    bool profiles = false, json = false, markdown = false, keys = false;
    train::ProfileRequest request;
    ProfileArguments profiling;
    TuneArguments tuning;
    train::GenerationOptions generation;
    int threads = 0;
  };
  const auto s = std::make_shared<State>();

  auto* train = app.add_subcommand("train", "train a model: mylos train CONFIG.toml [--section.key=value ...]");
  train->add_option("config", chosen.config.path, "configuration (TOML)")->required();
  auto* profile_flag =
      train->add_flag("--profile", s->profiles, "record every kernel of some steps; leaves a bundle of kind profile");
  train->add_option("--profile-steps", s->request.steps, "steps to record; default 3")
      ->check(within<std::int64_t>(1, train::ProfileRequest::kMostSteps, "without the option it is 3"))
      ->needs(profile_flag);
  train->add_option("--profile-after", s->request.after, "the step before them; default 10, less in a shorter run")
      ->check(within<std::int64_t>(1, 1'000'000'000, "the first step is not recorded; without the option it is 10"))
      ->needs(profile_flag);
  train->add_option("--profile-output", s->request.bundle, "bundle; default: output.bundle ending in .profile.h5")
      ->needs(profile_flag);
  train->add_option("--profile-trace", s->request.timeline, "timeline to write, JSON for Perfetto or chrome://tracing")
      ->needs(profile_flag);
  train->callback([s, &chosen] {
    chosen.command = [s, &chosen] {
      return cli::train({chosen.config, s->profiles ? std::optional(s->request) : std::nullopt});
    };
  });

  auto* plan = app.add_subcommand("plan", "print parameters and the memory plan of a configuration");
  plan->add_option("config", chosen.config.path, "configuration (TOML)")->required();
  plan->add_flag("--json", s->json, "as JSON");
  plan->callback([s, &chosen] { chosen.command = [s, &chosen] { return cli::plan(chosen.config, s->json); }; });

  auto* profile = app.add_subcommand("profile", "time every op of a training step");
  profile->add_option("config", chosen.config.path, "configuration (TOML); without data.train: random tokens")
      ->required();
  profile->add_option("--steps", s->profiling.options.steps, "steps to measure")
      ->check(within<std::int64_t>(1, 10'000, "without the option it is 10"))
      ->capture_default_str();
  profile->add_option("--warmup", s->profiling.options.warmup, "steps before them")
      ->check(within<std::int64_t>(1, 10'000, "without the option it is 3"))
      ->capture_default_str();
  profile->add_option("--json", s->profiling.json, "file for the table as JSON");
  profile->add_option("-o,--output", s->profiling.bundle, "bundle to write");
  profile->callback([s, &chosen] {
    chosen.command = [s, &chosen] {
      s->profiling.config = chosen.config;
      return cli::profile(s->profiling);
    };
  });

  auto* tune = app.add_subcommand("tune", "measure which algorithms its matrix products run fastest with (GPU)");
  tune->add_option("config", chosen.config.path, "configuration (TOML)")->required();
  tune->add_option("--cache", s->tuning.cache, "file to add to; default: ~/.cache/mylos/products.json");
  tune->add_option("--seconds", s->tuning.seconds, "of measuring, all products together")
      ->check(within(0.1, 86400.0, "80 are enough for most models"))
      ->capture_default_str();
  tune->add_option("--candidates", s->tuning.candidates, "algorithms a product, in the library's order")
      ->check(within<std::int64_t>(1, 1000, "12 are usual"))
      ->capture_default_str();
  tune->callback([s, &chosen] {
    chosen.command = [s, &chosen] {
      s->tuning.config = chosen.config;
      return cli::tune(s->tuning);
    };
  });

  auto* config_command = app.add_subcommand("config", "print a configuration with all defaults filled in");
  config_command->add_option("config", chosen.config.path, "configuration (TOML); none: the defaults");
  auto* markdown_flag = config_command->add_flag("--markdown", s->markdown, "every key with its meaning, as Markdown");
  config_command->add_flag("--keys", s->keys, "every key with its meaning, one a line")->excludes(markdown_flag);
  config_command->callback([s, &chosen] {
    chosen.command = [s, &chosen] {
      return cli::config(chosen.config, s->markdown ? ConfigFormat::markdown
                                        : s->keys   ? ConfigFormat::keys
                                                    : ConfigFormat::toml);
    };
  });

  auto* generate = app.add_subcommand("generate", "write text with trained weights");
  generate->add_option("--weights", s->generation.weights, "weight file of a run")->required();
  generate->add_option("--prompt", s->generation.prompt, "how the text begins");
  generate->add_option("--tokens", s->generation.tokens, "most tokens to write")
      ->check(within<std::int64_t>(1, 1'000'000'000, "200 are a page"))
      ->capture_default_str();
  generate->add_option("--temperature", s->generation.sampling.temperature, "0: always the most likely token")
      ->check(within(0.0, 1e6, "1 draws by the model's own probabilities"))
      ->capture_default_str();
  generate->add_option("--top-k", s->generation.sampling.top_k, "draw from the K most likely; 0: from all")
      ->check(within<std::int64_t>(0, 1'000'000'000, "0 draws from all"))
      ->capture_default_str();
  generate->add_option("--seed", s->generation.sampling.seed, "of the random numbers")
      ->check(within<std::int64_t>(0, std::int64_t(1) << 53, "any such number gives one text"))
      ->capture_default_str();
  generate->add_option("--window", s->generation.window, "tokens the model looks back; 0: as trained")
      ->check(within<std::int64_t>(0, 1 << 24, "0 is as trained"))
      ->capture_default_str();
  generate->add_option("--tokenizer", s->generation.tokenizer,
                       "byte, a tokenizer.json or a .model; default: what the weight file names");
  generate->add_option("--threads", s->threads, "CPU threads; 0: OMP_NUM_THREADS, else all cores")
      ->check(within<std::int64_t>(0, 512, "0 takes all cores"))
      ->capture_default_str();
  generate->callback(
      [s, &chosen] { chosen.command = [s, &chosen] { return cli::generate(s->generation, s->threads); }; });
}

}  // namespace mylos::cli
