// What runs leave: bundles, benchmarks, campaigns.
#include <memory>

#include "cli/options.hpp"

namespace mylos::cli {

void add_result_commands(CLI::App& app, Chosen& chosen) {
  struct State {
    std::string file;
    std::vector<std::string> files;
    bool json = false;
    DiffArguments comparing;
  };
  const auto s = std::make_shared<State>();

  auto* inspect = app.add_subcommand("inspect", "show what a bundle or weight file holds");
  inspect->add_option("file", s->file, "HDF5 file")->required();
  inspect->add_flag("--json", s->json, "as JSON");
  inspect->callback([s, &chosen] { chosen.command = [s] { return cli::inspect(s->file, s->json); }; });

  auto* validate = app.add_subcommand("validate", "check bundles against the schema");
  validate->add_option("files", s->files, "HDF5 files")->required();
  validate->callback([s, &chosen] { chosen.command = [s] { return cli::validate(s->files); }; });

  auto* diff = app.add_subcommand("diff", "say which cases of B are faster than in A, slower or the same");
  diff->add_option("a", s->comparing.options.a, "bundle of benchmarks or of a training run, or a folder of rounds")
      ->required();
  diff->add_option("b", s->comparing.options.b, "the other one, of the same kind")->required();
  auto* case_option =
      diff->add_option("--case", s->comparing.options.pattern, "regular expression; default: all cases");
  diff->add_option("--pair", s->comparing.pairs, "CASE_OF_A=CASE_OF_B: compare cases of different names")
      ->excludes(case_option);
  diff->add_option("--threshold", s->comparing.threshold, "the least change that matters")->capture_default_str();
  diff->add_flag("--paired", s->comparing.options.compare.paired,
                 "round i of A ran beside round i of B (tools/compare)");
  diff->add_flag("--fail-on-slower", s->comparing.fail_on_slower, "exit status 5 when a case is SLOWER");
  diff->add_flag("--json", s->comparing.json, "as JSON");
  diff->callback([s, &chosen] { chosen.command = [s] { return cli::diff(s->comparing); }; });

  auto* bench = app.add_subcommand("bench", "time components: mylos bench [PATTERN...] [--list] [--bundle FILE]");
  bench->set_help_flag();  // mylos-bench has its own
  bench->prefix_command();
  bench->callback([bench, &chosen] { chosen.command = [bench] { return cli::bench(bench->remaining()); }; });

  auto* campaign =
      app.add_subcommand("campaign", "run, show, report and keep many runs: run|status|report|keep|new NAME");
  campaign->set_help_flag();  // tools/campaign has its own
  campaign->prefix_command();
  campaign->callback(
      [campaign, &chosen] { chosen.command = [campaign] { return cli::campaign(campaign->remaining()); }; });

  auto* version = app.add_subcommand("version", "print version, commit and libraries");
  version->callback([&chosen] { chosen.command = [] { return cli::version(); }; });
}

}  // namespace mylos::cli
