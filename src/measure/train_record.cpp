#include "measure/train_record.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace mylos::measure {

namespace {

double sum(std::span<const double> v) { return std::accumulate(v.begin(), v.end(), 0.0); }

// Rows of single sources beside a table of the whole; -1 when there is but one.
int add_parts(Bundle& bundle, const char* name, const std::vector<std::string>& parts, std::vector<Column> columns) {
  if (parts.size() < 2) return -1;
  columns.insert(columns.begin(), {{"step", "1", "optimizer step, the first is 1"},
                                   {"source", "1", "number of the source; attribute source_<number> is its name"},
                                   {"loss", "nat/token", "mean cross entropy over the source's valid tokens"},
                                   {"valid_tokens", "tokens", "tokens of the source that counted in the loss"}});
  const int table = bundle.add_table("samples", name, columns);
  for (std::size_t i = 0; i < parts.size(); ++i)
    bundle.set_attribute(std::string("/samples/") + name, fmt::format("source_{}", i), parts[i]);
  return table;
}

}  // namespace

TrainRecord::TrainRecord(Bundle& bundle, const RunFacts& facts) : bundle_(bundle), facts_(facts) {
  steps_ = bundle.add_table(
      "samples", "steps",
      {{"step", "1", "optimizer step, the first is 1"},
       {"loss", "nat/token", "mean cross entropy over the step's valid tokens, before the update"},
       {"grad_norm", "1", "global L2 norm of the gradient before clipping"},
       {"learning_rate", "1", "learning rate of the step"},
       {"tokens", "tokens", "tokens processed in the step on all devices"},
       {"valid_tokens", "tokens", "tokens that counted in the loss"},
       {"step_time", "s",
        "from the end of the step before to its own, data wait included; evaluation and checkpoints not"},
       {"data_wait", "s", "time of the step spent waiting for data"},
       {"tokens_per_s", "tokens/s", "tokens over step_time"},
       {"time", "s", "end of the step since the begin of the run; NaN when not known"}});
  evaluations_ =
      bundle.add_table("samples", "evaluation",
                       {{"step", "1", "optimizer steps taken before the evaluation"},
                        {"loss", "nat/token", "mean cross entropy on validation data"},
                        {"bits_per_byte", "bit/byte", "the same per byte of text; NaN when the bytes are not known"},
                        {"tokens", "tokens", "valid tokens evaluated"},
                        {"time", "s", "wall time of the evaluation"}});
  sources_ = add_parts(bundle, "sources", facts.sources,
                       {{"epochs", "1", "times the source had been read by the end of the step"}});
  sets_ = add_parts(bundle, "evaluation_sets", facts.validation_sets, {});
  status("running");
  bundle.before_publish([this](Bundle& b) { summarize(b); });
}

void TrainRecord::step(const StepSample& s) {
  check(s.step_time_s > 0 && s.tokens > 0, "step {} has {} tokens in {} s; both must be positive", s.step, s.tokens,
        s.step_time_s);
  bundle_.append(steps_,
                 {double(s.step), s.loss, s.grad_norm, s.learning_rate, double(s.tokens), double(s.valid_tokens),
                  s.step_time_s, s.data_wait_s, double(s.tokens) / s.step_time_s, s.end_s});
  if (sources_ < 0) return;
  for (const SourceSample& p : s.sources)
    bundle_.append(sources_, {double(s.step), double(p.source), p.loss, double(p.valid_tokens), p.epochs});
}

void TrainRecord::evaluation(const EvaluationSample& s) {
  bundle_.append(evaluations_, {double(s.step), s.loss, s.bits_per_byte, double(s.tokens), s.time_s});
  if (sets_ < 0) return;
  for (const SourceSample& p : s.sets)
    bundle_.append(sets_, {double(s.step), double(p.source), p.loss, double(p.valid_tokens)});
}

void TrainRecord::status(const std::string& status) { bundle_.set_attribute("/", "status", status); }

void TrainRecord::summarize(Bundle& b) const {
  const std::int64_t steps = b.rows(steps_);
  b.set_attribute("/summary", "steady_window_rule", std::string(kSteadyWindowRule));
  b.set_attribute("/derived", "devices", facts_.devices);
  b.set_attribute("/derived", "device", facts_.device);
  if (facts_.documents)
    b.set_attribute("/derived", "documents",
                    "attention stayed inside documents; model FLOPs, and so every MFU, count it over whole rows");
  const std::optional<DevicePeak> known = device_peak(facts_.device);
  const double peak = known ? peak_of(*known, facts_.storage) : 0;
  if (peak <= 0) {
    b.set_attribute("/derived", "no_mfu",
                    known ? fmt::format("'{}' has no known dense peak for {}", facts_.device, name_of(facts_.storage))
                          : fmt::format("no peak is known for the device '{}'", facts_.device));
  }
  if (steps == 0) return;

  const auto losses = b.column(steps_, "loss");
  const std::size_t last = std::min<std::size_t>(10, losses.size());
  b.set_summary("steps", double(steps), {"1", "optimizer steps recorded"});
  b.set_summary("tokens", sum(b.column(steps_, "tokens")), {"tokens", "tokens processed in all recorded steps"});
  b.set_summary("train_loss_last", losses.back(), {"nat/token", "loss of the last step"});
  b.set_summary("train_loss_last_10_mean", sum(losses.last(last)) / double(last),
                {"nat/token", "mean loss of the last 10 steps, or of all when there are fewer"});
  if (b.rows(evaluations_) > 0) {
    b.set_summary("validation_loss_last", b.column(evaluations_, "loss").back(),
                  {"nat/token", "loss of the last evaluation"});
    b.set_summary("validation_bits_per_byte_last", b.column(evaluations_, "bits_per_byte").back(),
                  {"bit/byte", "bits per byte of the last evaluation; NaN when the bytes of the text are not known"});
  }

  const SteadyWindow w = steady_window(steps);
  const auto in_window = [&](const char* name) {
    return b.column(steps_, name).subspan(std::size_t(w.first), std::size_t(w.end - w.first));
  };
  const double time = sum(in_window("step_time"));
  const double rate = sum(in_window("tokens")) / time;
  const MedianInterval median = median_interval(in_window("tokens_per_s"));
  b.set_attribute("/summary", "steady_window_is_short", w.short_run);
  b.set_summary("steady_window_first", double(w.first), {"1", "first row of /samples/steps in the steady window"});
  b.set_summary("steady_window_end", double(w.end), {"1", "row after the last one of the steady window"});
  b.set_summary("tokens_per_s", rate, {"tokens/s", "tokens over wall time of the steady window"});
  b.set_summary("tokens_per_s_median", median.median,
                {"tokens/s", "median over the steps of the steady window", {{"interval", std::string(median.method)}}});
  b.set_summary("tokens_per_s_median_low", median.low, {"tokens/s", "lower end of the median's 95 % interval"});
  b.set_summary("tokens_per_s_median_high", median.high, {"tokens/s", "upper end of the median's 95 % interval"});
  b.set_summary("data_wait_fraction", sum(in_window("data_wait")) / time,
                {"1", "part of the steady window spent waiting for data"});

  for (const MfuDefinition& d : mfu_definitions(facts_.flops)) {
    if (d.flops_per_token <= 0) continue;
    const std::string about = std::string("model FLOPs per second and device, summary/tokens_per_s: ") + d.formula;
    b.set_derived("model_flops_per_token_" + std::string(d.name + 4), d.flops_per_token, {"FLOP/token", d.formula});
    b.set_derived("model_flop_rate_" + std::string(d.name + 4), d.flops_per_token * rate / double(facts_.devices),
                  {"FLOP/s", about});
    if (peak <= 0) continue;
    b.set_derived(d.name, d.flops_per_token * rate / (double(facts_.devices) * peak),
                  {"1",
                   std::string("model FLOPs utilisation: ") + d.formula,
                   {{"peak_flops", peak}, {"peak_source", std::string(known->source)}}});
  }
  if (!known) return;
  if (const auto light = speed_of_light_s(b.flop_ledger(), *known, facts_.devices)) {
    b.set_derived(
        "sol", *light * double(w.end - w.first) / time,
        {"1", "time of all ops of a step at the peak of their dtypes, over the mean step time of the steady window"});
  }
}

}  // namespace mylos::measure
