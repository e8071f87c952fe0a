#include "measure/validate_train.hpp"
#include "measure/findings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "base/config.hpp"
#include "base/error.hpp"
#include "measure/agree.hpp"
#include "measure/train_samples.hpp"
#include "model/config.hpp"

namespace mylos::measure {
namespace {

using checkpoint::Attributes;
using checkpoint::AttributeValue;
using checkpoint::Reader;

// What nothing but the samples may give: such a figure is an error where they give none.
constexpr std::string_view kFollow[] = {"/derived/mfu_",
                                        "/derived/model_flop",
                                        "/derived/sol",
                                        "/derived/energy_per_token",
                                        "/summary/power_mean",
                                        "/summary/power_capped_share",
                                        "/summary/sm_clock_median",
                                        "/summary/validation_loss_last",
                                        "/summary/validation_bits_per_byte_last",
                                        "/summary/steady_window_",
                                        "/summary/tokens",
                                        "/summary/train_loss_last",
                                        "/summary/data_wait_fraction",
                                        "/summary/steps"};

constexpr double kEnergyTolerance = 1e-6;  // differences of a large counter

class Check : Findings {
 public:
  Check(const Reader& file, const std::string& kind, const std::string& status)
      : file_(file), kind_{.is_peer = kind == "peer", .failed = status.starts_with("failed")} {}

  std::vector<Finding> run() {
    samples_ = read_train_samples(file_, kind_, list);
    const bool wrong = std::any_of(list.begin(), list.end(), [](const Finding& f) { return f.error; });
    if (wrong) return std::move(list);  // nothing follows from them
    if (samples_.loss.empty()) warning("/samples/steps", "no step was recorded");
    window_ = window_of(std::int64_t(samples_.loss.size()));
    Figures figures = train_figures(samples_.steps(), samples_.evaluations(), facts(), window_);
    if (samples_.has_gpu) {
      Figures more = gpu_figures(samples_.steps(), samples_.gpu(), window_);
      std::move(more.figures.begin(), more.figures.end(), std::back_inserter(figures.figures));
      std::move(more.attributes.begin(), more.attributes.end(), std::back_inserter(figures.attributes));
    }
    for (const Figure& f : figures.figures) given_[f.path] = f.value;
    for (const Figure& f : figures.figures) guarded(f.path, [&] { figure(f); });
    for (const auto& [group, values] : figures.attributes)
      for (const auto& [name, value] : values) attribute(group, name, value);
    without_reason(figures);
    guarded("/summary/device_memory_peak", [&] { peak_memory(); });
    guarded("/summary/data_fill", [&] { data_fill(); });
    return std::move(list);
  }

 private:
  template <class T>
  T stored(const std::string& object, const char* name, T otherwise) const {
    const Attributes all = file_.attributes(object);
    const auto found = all.find(name);
    const T* value = found == all.end() ? nullptr : std::get_if<T>(&found->second);
    return value == nullptr ? otherwise : *value;
  }

  // A peer whose times are those at which the host heard of an end leaves its last step out: the time of that is cut short.
  SteadyWindow window_of(std::int64_t steps) const {
    const bool shorter = kind_.is_peer && steps > 4 && file_.has_dataset("/summary/steady_window_end") &&
                         file_.real("/summary/steady_window_end") == double(steps - 1);
    return steady_window(shorter ? steps - 1 : steps);
  }

  FigureFacts facts() {
    FigureFacts f;
    f.device = stored<std::string>("/hardware", "device", "");
    f.devices = stored<std::int64_t>("/hardware", "devices", 1);
    if (f.devices < 1) error("/hardware:devices", fmt::format("is {}; a run has at least one", f.devices));
    f.devices = std::max<std::int64_t>(1, f.devices);
    guarded("/config/toml", [&] { read_config(f); });
    guarded("/plan/flop_ledger", [&] { f.ledger = ledger(); });
    // With autocast a peer's products of fp32 weights run in bf16, which only the peak that it states says.
    if (kind_.is_peer && file_.has_dataset("/derived/mfu_causal"))
      if (const auto known = device_peak(f.device))
        for (const DType dtype : {DType::bf16, DType::f32})
          if (stored<double>("/derived/mfu_causal", "peak_flops", 0) == peak_of(*known, dtype)) f.storage = dtype;
    return f;
  }

  void read_config(FigureFacts& f) {
    model::ModelConfig model;
    std::int64_t sequence = 0;
    read_config_parts(file_.text("/config/toml"), "/config/toml",
                      {{"model", "", [&](ConfigBinder& keys) { bind(keys, model); }},
                       {"train", "", [&](ConfigBinder& keys) {
                          keys.integer("sequence", sequence, 1, 1 << 24, "");
                          keys.choice("storage", f.storage, {"f32", "bf16"}, "");
                        }}});
    check(sequence > 0, "has no train.sequence, from which model FLOPs follow");
    f.flops = model::model_flops_per_token(model::resolve(model), sequence);
  }

  std::vector<model::OpCost> ledger() const {
    const std::string at = "/plan/flop_ledger/";
    std::vector<model::OpCost> ops;
    if (kind_.is_peer && !file_.has_dataset(at + "flops")) return ops;
    for (const char* column : {"bytes", "calls"}) {
      const std::vector<double> values = file_.reals(at + column);
      for (std::size_t i = 0; i < values.size(); ++i)
        check(std::isfinite(values[i]) && values[i] >= 0, "row {} has {} {}", i, values[i], column);
    }
    const std::vector<double> flops = file_.reals(at + "flops");
    const std::vector<std::string> dtypes = file_.texts(at + "dtype");
    check(flops.size() == dtypes.size(), "has {} FLOPs and {} dtypes", flops.size(), dtypes.size());
    for (std::size_t i = 0; i < flops.size(); ++i) {
      check(std::isfinite(flops[i]) && flops[i] >= 0, "row {} has {} FLOPs", i, flops[i]);
      ops.push_back({.op = "",
                     .phase = model::Phase::forward,
                     .calls = 1,
                     .flops = flops[i],
                     .bytes = 0,
                     .dtype = dtype_of(dtypes[i])});
    }
    return ops;
  }

  void figure(const Figure& f) {
    if (!file_.has_dataset(f.path)) {
      if (!kind_.is_peer || is_of_peers(f.path)) error(f.path, "dataset is missing");
      return;
    }
    const double value = file_.real(f.path);
    if (!agree(value, f.value) && !(kind_.is_peer && earlier_peer(f, value)))
      return error(f.path, fmt::format("is {}; the samples give {}", value, f.value));
    for (const auto& [name, wanted] : f.about.more) attribute(f.path, name, wanted);
  }

  // What those of other systems have, too (docs/bundle.md).
  static bool is_of_peers(const std::string& path) {
    constexpr std::string_view kOurs[] = {
        "/summary/train_loss_last_10_mean", "/summary/data_wait_fraction", "/summary/power_mean",
        "/summary/sm_clock_median",         "/summary/power_capped_share", "/derived/sol"};
    return std::find(std::begin(kOurs), std::end(kOurs), path) == std::end(kOurs);
  }

  bool earlier_peer(const Figure& f, double value) const {
    const auto given = [&](const char* name) { return given_.at(std::string("/summary/tokens_per_s_median") + name); };
    if (f.path.ends_with("_low") || f.path.ends_with("_high"))
      return std::abs(value - f.value) <= 0.25 * (given("_high") - given("_low")) + 1e-3 * given("");
    return f.path == "/derived/energy_per_token" &&
           (agree(value, f.value, kEnergyTolerance) || agree(value, earlier_energy(), kEnergyTolerance));
  }

  // One difference over the window, what came after the last sample as if nothing was used.
  double earlier_energy() const {
    const auto at = [&](double t) {
      const std::vector<double>&times = samples_.gpu_time, &energies = samples_.gpu_energy;
      const auto after = std::size_t(std::lower_bound(times.begin(), times.end(), t) - times.begin());
      if (after == times.size()) return energies.back();
      if (after == 0) return energies.front();
      const double part = (t - times[after - 1]) / (times[after] - times[after - 1]);
      return energies[after - 1] + part * (energies[after] - energies[after - 1]);
    };
    const auto first = std::size_t(window_.first), last = std::size_t(window_.end - 1);
    const double used = at(samples_.time[last]) - at(samples_.time[first] - samples_.step_time[first]);
    double tokens = 0;
    for (std::size_t i = first; i <= last; ++i) tokens += samples_.tokens[i];
    return used / tokens;
  }

  void attribute(const std::string& object, const std::string& name, const AttributeValue& wanted) {
    const std::string where = object + ":" + name;
    if (!file_.has_group(object) && !file_.has_dataset(object)) return;  // reported by the rules
    const Attributes all = file_.attributes(object);
    const auto found = all.find(name);
    const bool is_reason = name == "no_mfu" || name == "no_energy";
    if (found == all.end()) {
      if (!kind_.is_peer || name != "no_energy") error(where, "attribute is missing");
    } else if (found->second.index() != wanted.index()) {
      error(where, "attribute has the wrong type");
    } else if (!is_reason && found->second != wanted) {
      error(where,
            fmt::format("is {}; the samples and the configuration give {}", shown(found->second), shown(wanted)));
    }
  }

  static std::string shown(const AttributeValue& value) {
    return std::visit([](const auto& v) { return fmt::format("'{}'", v); }, value);
  }

  void without_reason(const Figures& figures) {
    std::set<std::string> reasons;
    for (const auto& [group, values] : figures.attributes)
      for (const auto& [name, value] : values) reasons.insert(group + ":" + name);
    for (const std::string group : {"/summary", "/derived"}) {
      if (!file_.has_group(group)) continue;
      for (const std::string& name : file_.datasets(group)) {
        const std::string path = group + "/" + name;
        const bool follows = std::any_of(std::begin(kFollow), std::end(kFollow),
                                         [&](std::string_view start) { return path.starts_with(start); });
        if (follows && !given_.contains(path)) error(path, "nothing in the file gives such a figure");
      }
    }
    for (const char* reason : {"/derived:no_mfu", "/derived:no_energy"})
      if (file_.has_group("/derived") && file_.attributes("/derived").contains(std::string(reason).substr(9)) &&
          !reasons.contains(reason) && (samples_.has_gpu || reason == std::string("/derived:no_mfu")))
        error(reason, "says that there is none, but the samples give one");
  }

  // Of the data, which is not in the file.
  void data_fill() {
    const std::string path = "/summary/data_fill";
    if (!file_.has_dataset(path)) return;
    const double fill = file_.real(path);
    if (!(fill > 0 && fill <= 1)) error(path, fmt::format("is {}; a part of rows is above 0 and at most 1", fill));
  }

  // It is measured, not summed: within the device, and within what all processes were seen to hold.
  void peak_memory() {
    const std::string path = "/summary/device_memory_peak";
    if (!file_.has_dataset(path)) return;  // of a run that did not end
    const double peak = file_.real(path), memory = double(file_.integer("/hardware/device_memory"));
    if (!(std::isfinite(peak) && peak > 0)) return error(path, fmt::format("is {} bytes; a run holds some", peak));
    if (memory > 0 && peak > memory)
      return error(path, fmt::format("is {:.0f} bytes; the device has {:.0f}", peak, memory));
    double seen = 0;
    for (std::size_t i = 0; i < samples_.gpu_memory_used.size(); ++i)
      if (!samples_.time.empty() && samples_.gpu_time[i] >= samples_.time.front())
        seen = std::max(seen, std::isfinite(samples_.gpu_memory_used[i]) ? samples_.gpu_memory_used[i] : 0);
    if (seen > 0 && peak > seen)
      error(path,
            fmt::format("is {:.0f} bytes; no sample of /telemetry/gpu/memory_used saw more than {:.0f}", peak, seen));
  }

  const Reader& file_;
  const TrainKind kind_;
  TrainSamples samples_;
  SteadyWindow window_;
  std::map<std::string, double> given_;  // figures that the samples give, by path
};

}  // namespace

std::vector<Finding> train_findings(const Reader& file, const std::string& kind, const std::string& status) {
  return Check(file, kind, status).run();
}

}  // namespace mylos::measure
