#include "measure/train_record.hpp"

#include <cmath>

#include "base/error.hpp"
#include "measure/train_figures.hpp"

namespace mylos::measure {

namespace {

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
  check(s.step_time_s > 0 && std::isfinite(s.step_time_s) && s.tokens > 0,
        "step {} has {} tokens in {} s; both must be positive and finite", s.step, s.tokens, s.step_time_s);
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
  if (facts_.documents)
    b.set_attribute("/derived", "documents",
                    "attention stayed inside documents; model FLOPs, and so every MFU, count it over whole rows");
  const auto steps = [&](const char* name) { return b.column(steps_, name); };
  put(b, train_figures({.loss = steps("loss"),
                        .tokens = steps("tokens"),
                        .step_time = steps("step_time"),
                        .data_wait = steps("data_wait"),
                        .tokens_per_s = steps("tokens_per_s"),
                        .time = steps("time")},
                       {b.column(evaluations_, "loss"), b.column(evaluations_, "bits_per_byte")},
                       {.flops = facts_.flops,
                        .device = facts_.device,
                        .devices = facts_.devices,
                        .storage = facts_.storage,
                        .ledger = b.flop_ledger()},
                       steady_window(b.rows(steps_))));
}

}  // namespace mylos::measure
