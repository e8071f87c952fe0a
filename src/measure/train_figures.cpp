#include "measure/train_figures.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "measure/bundle.hpp"

namespace mylos::measure {

using checkpoint::About;

namespace {

double sum(std::span<const double> v) { return std::accumulate(v.begin(), v.end(), 0.0); }

std::string why_no_mfu(const FigureFacts& facts, const std::optional<DevicePeak>& known) {
  return known ? fmt::format("'{}' has no known dense peak for {}", facts.device, name_of(facts.storage))
               : fmt::format("no peak is known for the device '{}'", facts.device);
}

void add_utilisation(Figures& f, const FigureFacts& facts, double rate, double step_s) {
  const auto derived = [&](const std::string& name, double value, About about) {
    f.figures.push_back({"/derived/" + name, value, std::move(about)});
  };
  const std::optional<DevicePeak> known = device_peak(facts.device);
  const double peak = known ? peak_of(*known, facts.storage) : 0, devices = double(facts.devices);
  for (const MfuDefinition& d : mfu_definitions(facts.flops)) {
    if (d.flops_per_token <= 0) continue;
    const std::string kind = d.name + 4, formula = d.formula;
    derived("model_flops_per_token_" + kind, d.flops_per_token, {"FLOP/token", formula});
    derived("model_flop_rate_" + kind, d.flops_per_token * rate / devices,
            {"FLOP/s", "model FLOPs per second and device, summary/tokens_per_s: " + formula});
    if (peak <= 0) continue;
    derived(d.name, d.flops_per_token * rate / (devices * peak),
            {"1",
             "model FLOPs utilisation: " + formula,
             {{"peak_flops", peak}, {"peak_source", std::string(known->source)}}});
  }
  if (!known) return;
  if (const auto light = speed_of_light_s(facts.ledger, *known, facts.devices))
    derived(
        "sol", *light / step_s,
        {"1", "time of all ops of a step at the peak of their dtypes, over the mean step time of the steady window"});
}

}  // namespace

void Figures::attribute(const std::string& group, const std::string& name, checkpoint::AttributeValue value) {
  attributes.push_back({group, {{name, std::move(value)}}});
}

Figures train_figures(const StepSeries& steps, const EvaluationSeries& evaluations, const FigureFacts& facts,
                      const SteadyWindow& w) {
  Figures f;
  const auto summary = [&](const char* name, double value, About about) {
    f.figures.push_back({std::string("/summary/") + name, value, std::move(about)});
  };
  f.attribute("/summary", "steady_window_rule", std::string(kSteadyWindowRule));
  f.attribute("/derived", "devices", facts.devices);
  f.attribute("/derived", "device", facts.device);
  const std::optional<DevicePeak> known = device_peak(facts.device);
  if (!known || peak_of(*known, facts.storage) <= 0) f.attribute("/derived", "no_mfu", why_no_mfu(facts, known));
  if (steps.loss.empty()) return f;

  const std::size_t last = std::min<std::size_t>(10, steps.loss.size());
  summary("steps", double(steps.loss.size()), {"1", "optimizer steps recorded"});
  summary("tokens", sum(steps.tokens), {"tokens", "tokens processed in all recorded steps"});
  summary("train_loss_last", steps.loss.back(), {"nat/token", "loss of the last step"});
  summary("train_loss_last_10_mean", sum(steps.loss.last(last)) / double(last),
          {"nat/token", "mean loss of the last 10 steps, or of all when there are fewer"});
  if (!evaluations.loss.empty()) {
    summary("validation_loss_last", evaluations.loss.back(), {"nat/token", "loss of the last evaluation"});
    summary("validation_bits_per_byte_last", evaluations.bits_per_byte.back(),
            {"bit/byte", "bits per byte of the last evaluation; NaN when the bytes of the text are not known"});
  }

  const auto in_window = [&](std::span<const double> column) {
    return column.subspan(std::size_t(w.first), std::size_t(w.end - w.first));
  };
  const double time = sum(in_window(steps.step_time)), rate = sum(in_window(steps.tokens)) / time;
  const MedianInterval median = median_interval(in_window(steps.tokens_per_s));
  f.attribute("/summary", "steady_window_is_short", w.short_run);
  summary("steady_window_first", double(w.first), {"1", "first row of /samples/steps in the steady window"});
  summary("steady_window_end", double(w.end), {"1", "row after the last one of the steady window"});
  summary("tokens_per_s", rate, {"tokens/s", "tokens over wall time of the steady window"});
  summary("tokens_per_s_median", median.median,
          {"tokens/s", "median over the steps of the steady window", {{"interval", std::string(median.method)}}});
  summary("tokens_per_s_median_low", median.low, {"tokens/s", "lower end of the median's 95 % interval"});
  summary("tokens_per_s_median_high", median.high, {"tokens/s", "upper end of the median's 95 % interval"});
  summary("data_wait_fraction", sum(in_window(steps.data_wait)) / time,
          {"1", "part of the steady window spent waiting for data"});
  add_utilisation(f, facts, rate, time / double(w.end - w.first));
  return f;
}

void put(Bundle& bundle, const Figures& f) {
  for (const auto& [group, values] : f.attributes)
    for (const auto& [name, value] : values) bundle.set_attribute(group, name, value);
  for (const Figure& figure : f.figures) {
    const std::size_t slash = figure.path.rfind('/');
    const std::string group = figure.path.substr(0, slash), name = figure.path.substr(slash + 1);
    check(group == "/summary" || group == "/derived", "'{}' is no figure of /summary or /derived", figure.path);
    if (group == "/summary")
      bundle.set_summary(name, figure.value, figure.about);
    else
      bundle.set_derived(name, figure.value, figure.about);
  }
}

}  // namespace mylos::measure
