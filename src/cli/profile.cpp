#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/usage.hpp"
#include "cli/commands.hpp"
#include "data/file.hpp"
#include "measure/bundle.hpp"
#include "tensor/runtime.hpp"
#include "train/profile.hpp"
#include "train/record.hpp"

namespace mylos::cli {
namespace {

using measure::Bundle;
using measure::OpRow;

void fill(Bundle& bundle, const train::StepProfile& p, const measure::Hardware& hardware,
          const std::vector<std::string>& command_line) {
  measure::Provenance provenance = measure::collect_provenance(command_line);
  provenance.user_note = p.config.output.note;
  bundle.set(provenance);
  bundle.set(hardware);
  bundle.set_config(to_toml(p.config));
  bundle.set_plan(plan::to_json(p.plan).dump(2), {p.plan.categories.begin(), p.plan.categories.end()});
  std::vector<model::OpCost> ledger;
  for (const OpRow& r : p.table.rows) ledger.push_back(r.cost);
  bundle.set_flop_ledger(ledger);

  const int steps = bundle.add_table("samples", "steps",
                                     {{"step", "1", "optimizer step after warm-up, the first is 1"},
                                      {"step_time", "s", "device time from the end of the step before to its own"}});
  for (std::size_t i = 0; i < p.step_s.size(); ++i) bundle.append(steps, {double(i + 1), p.step_s[i]});
  const int ops = bundle.add_table(
      "samples", "ops",
      {{"calls", "1", "times a step; row i is the op of row i of /plan/flop_ledger"},
       {"time", "s", "device time of all calls in a step, mean over the steps"},
       {"roofline", "s", "longer of FLOPs at the peak and bytes at the memory bandwidth; 0: not known"},
       {"compute_bound", "1", "1: FLOPs are the longer, 0: bytes are"}});
  for (const OpRow& r : p.table.rows)
    bundle.append(ops, {r.calls, r.seconds, r.roofline_s, r.compute_bound ? 1.0 : 0.0});
  bundle.set_summary("step_time", p.table.step_s, {"s", "device time of a step, mean"});
  bundle.set_summary("between_ops", p.table.between_s, {"s", "of it outside all ops, mean"});
  bundle.set_attribute("/samples", "random_tokens", p.random_tokens);
}

}  // namespace

int profile(const ProfileArguments& arguments) {
  if (!arguments.bundle.empty() && !arguments.json.empty() && is_same_file(arguments.bundle, arguments.json))
    usage_error("--json '{}' and -o '{}' are one file; name two", arguments.json, arguments.bundle);
  const train::Config config = train::load_config(arguments.config.path, arguments.config.overrides);
  for (const std::string& path : {arguments.bundle, arguments.json})
    if (!path.empty()) train::check_output(config, path);
  const Runtime runtime({.threads = int(config.train.threads)});
  const measure::Hardware hardware = measure::collect_hardware();
  const train::StepProfile p = train::profile(config, arguments.options);

  const double tokens = double(train::tokens_per_step(config));
  std::cout
      << plan::to_text(p.plan)
      << fmt::format(
             "\n{} steps of {} {}tokens after {} of warm-up on {} ({}, {} threads): {:.3f} ms a step, {} tokens/s\n\n",
             arguments.options.steps, train::tokens_per_step(config), p.random_tokens ? "random " : "",
             arguments.options.warmup, hardware.device_name, hardware.backend, hardware.threads, 1e3 * p.table.step_s,
             format_count(tokens / p.table.step_s))
      << measure::to_text(p.table);
  if (!arguments.bundle.empty()) {
    Bundle bundle(arguments.bundle, measure::BundleKind::profile);
    fill(bundle, p, hardware, arguments.config.command_line);
    bundle.finish();
    std::cout << "bundle " << arguments.bundle << '\n';
  }
  if (!arguments.json.empty()) {
    nlohmann::ordered_json j = {
        {"device", hardware.device_name}, {"steps", arguments.options.steps}, {"tokens", tokens}};
    j["random_tokens"] = p.random_tokens;
    j["step_times_s"] = p.step_s;
    j.update(measure::to_json(p.table));
    data::write_file(arguments.json, j.dump(2) + "\n");
  }
  return kDone;
}

}  // namespace mylos::cli
