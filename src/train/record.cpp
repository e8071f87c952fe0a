#include "train/record.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/write_lock.hpp"
#include "data/token_source.hpp"
#include "kernels/matmul/tuning.hpp"
#include "train/ledger.hpp"

namespace mylos::train {
namespace {

void check_replaceable(const Config& c, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  check(c.output.overwrite, "'{}' exists; choose another name, or set output.overwrite=true to replace it", path);
  // Replacing means removing: that must not hit a device, a folder or what the run reads.
  check(std::filesystem::is_regular_file(path, error),
        "'{}' is not a regular file, and so is not replaced; choose another name", path);
  for (const std::string& file : c.files)
    check(!is_same_file(path, file), "output '{}' is the configuration '{}' itself; choose another name", path, file);
  check(c.train.products.empty() || !is_same_file(path, c.train.products),
        "output '{}' is the file of products that is read; choose another name", path);
  for (const std::string& tokens : data::expand_files(data::patterns_of(c.data)))
    for (const std::string& file : data::files_read_with(tokens))
      check(!is_same_file(path, file),
            "output '{}' is '{}', which is read with the tokens of '{}'; choose another name", path, file, tokens);
}

// What an earlier run left must not stand beside the new bundle if this run is killed.
void make_room(const Config& c) {
  check_outputs(c);
  for (const std::string& path : {c.output.bundle, c.output.weights, c.output.log}) {
    std::error_code error;
    std::filesystem::remove(path, error);
    check(!error, "'{}' cannot be replaced: {}", path, error.message());
  }
}

measure::Bundle new_bundle(const Config& config) {
  make_room(config);
  return measure::Bundle(config.output.bundle, measure::BundleKind::train);
}

measure::RunFacts facts_of(const Config& config, const plan::MemoryPlan& plan, const measure::Hardware& hardware,
                           const SourceNames& names) {
  return {.flops = plan.flops_per_token,
          .device = hardware.device_name,
          .devices = hardware.devices,
          .storage = config.train.storage,
          .documents = config.data.documents,
          .sources = names.sources,
          .validation_sets = names.validation_sets};
}

// Which algorithm each product ran: with it, build and layout a run can be repeated to the bit.
std::string product_algorithms() {
  std::string lines;
  for (const kernels::TunedProduct& p : kernels::products_in_use())
    lines += fmt::format("{}: {}{}\n", kernels::describe(p.shape), p.description, p.pinned ? " (tuned)" : "");
  return lines;
}

// An attribute holds less than 32 KiB; some hundred sources need more.
constexpr std::size_t kMostDataBytes = 30'000;

std::string first_lines(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const std::size_t end = text.rfind('\n', most - 1) + 1;
  return text.substr(0, end) + fmt::format("and {} lines more: mylos data plan shows them, given /config/toml\n",
                                           std::count(text.begin() + std::ptrdiff_t(end), text.end(), '\n'));
}

}  // namespace

void check_output(const Config& config, const std::string& path) {
  check_replaceable(config, path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  check(!error, "the folder of output '{}' cannot be made: {}", path, error.message());
  const bool writable = ::access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
  check(writable, "output '{}' cannot be written: {}", path, std::strerror(errno));
}

void check_outputs(const Config& config) {
  const OutputConfig& output = config.output;
  // Files of a run that still goes on are not there to be replaced.
  std::error_code error;
  if (std::filesystem::is_regular_file(output.log, error)) const WriteLock lock(output.log, JsonLog::kWork);
  for (const std::string& path : {output.bundle, output.log}) check_output(config, path);
  // Weights of an earlier run are removed even when this one saves none.
  if (output.save_weights)
    check_output(config, output.weights);
  else
    check_replaceable(config, output.weights);
}

RunRecord::RunRecord(const Config& config, const plan::MemoryPlan& plan, const measure::Hardware& hardware,
                     const measure::Provenance& provenance, const SourceNames& names)
    : bundle_(new_bundle(config)),
      record_(bundle_, facts_of(config, plan, hardware, names)),
      log_(config.output.log, names.sources, names.validation_sets) {
  bundle_.set(provenance);
  measure::Hardware described = hardware;
  telemetry_.describe(described);
  bundle_.set(described);
  bundle_.set_config(to_toml(config));
  bundle_.set_plan(plan::to_json(plan).dump(2), {plan.categories.begin(), plan.categories.end()});
  bundle_.set_flop_ledger(step_ledger(config));
  telemetry_.attach(bundle_);
  log_.start(plan.parameters, config.train.steps, config.output.bundle);
  bundle_.publish();
}

void RunRecord::products(const std::string& what) { bundle_.set_attribute("/plan", "products", what); }

void RunRecord::data(const data::TrainingData& data, std::int64_t steps) {
  bundle_.set_attribute("/plan", "data", first_lines(data::describe(data, steps), kMostDataBytes));
  bundle_.set_summary("data_fill", data.fill(),
                      {.units = "1", .description = "tokens of samples that are text, not padding, over an epoch"});
}

void RunRecord::begin(std::chrono::steady_clock::time_point at) { telemetry_.start(at); }

void RunRecord::step(const measure::StepSample& sample) {
  record_.step(sample);
  log_.step(sample);
  bundle_.maybe_publish();
}

void RunRecord::evaluation(const measure::EvaluationSample& sample) {
  record_.evaluation(sample);
  log_.evaluation(sample);
}

void RunRecord::end(const RunResult& result, const DeviceMemory& memory) {
  if (const std::string lines = product_algorithms(); !lines.empty())
    bundle_.set_attribute("/plan", "product_algorithms", lines);
  bundle_.set_summary("device_memory_peak", double(memory.peak_bytes),
                      {.units = "bytes", .description = "most device memory held at once"});
  const bool finished = result.status == RunStatus::finished;
  const std::string status = finished                              ? "finished"
                             : result.status == RunStatus::stopped ? "stopped"
                                                                   : "failed: " + result.message;
  record_.status(status);
  log_.end(status, result.steps);
  if (finished)
    bundle_.finish();
  else
    bundle_.publish();
}

void RunRecord::fail(const std::string& why, std::int64_t steps) {
  const std::string status = "failed: " + why;
  record_.status(status);
  // On a full disk each of these may fail: that must not hide the error, or keep the other from its try.
  try {
    bundle_.publish();
  } catch (const std::exception&) {
  }
  try {
    log_.end(status, steps);
  } catch (const std::exception&) {
  }
}

}  // namespace mylos::train
