#include "train/run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "base/text.hpp"
#include "data/loader.hpp"
#include "optimizer/schedule.hpp"
#include "train/evaluation.hpp"
#include "train/ledger.hpp"
#include "train/products.hpp"
#include "train/progress.hpp"
#include "train/record.hpp"
#include "train/source_samples.hpp"
#include "train/step.hpp"
#include "train/weights.hpp"

namespace mylos::train {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr std::size_t kRateWindow = 20;  // steps that the shown tokens/s is averaged over

ProgressWriter::Mode progress_mode(const OutputConfig& output, bool terminal) {
  switch (output.progress) {
    case Progress::off:
      return ProgressWriter::Mode::off;
    case Progress::lines:
      return ProgressWriter::Mode::lines;
    case Progress::live:
      return ProgressWriter::Mode::live;
    case Progress::automatic:
      break;
  }
  return terminal ? ProgressWriter::Mode::live : ProgressWriter::Mode::lines;
}

class Run {
 public:
  Run(const Config& config, const RunOptions& options)
      : hardware_(measure::collect_hardware()),
        c_(with_swiglu(with_recompute(config, memory_for_run()))),
        progress_(options.out, progress_mode(config.output, options.terminal), config.output.log_interval),
        schedule_(config.schedule, config.train.steps),
        train_(c_.data, c_.model.vocab, c_.train.sequence, c_.train.batch * c_.train.accumulation),
        validation_(data::validation_data(c_.data, c_.model.vocab, c_.train.sequence)),
        plan_(plan_run(c_)) {
    data::check_tokenizers(c_.data, train_, validation_);
    introduce();
    plan::check_fits(plan_, hardware_.device_memory_bytes);
    check_outputs(c_);
    provenance_ = measure::collect_provenance(options.command_line);
    provenance_.user_note = c_.output.note;
    if (options.profile) profiler_.emplace(c_, *options.profile);
    if (const auto peak = measure::device_peak(hardware_.device_name))
      peak_flops_ = measure::peak_of(*peak, c_.train.storage);
    const std::string products = use_products(c_.train.products);
    if (hardware_.is_gpu) progress_.text(products + "\n");
    arena_.emplace(plan_.total_bytes, "training");
    step_.emplace(c_, *arena_);
    step_->initialize(stream_);
    // An earlier run's files go last: nothing that can fail comes between them and the first step.
    stream_.fence();
    record_.emplace(c_, plan_, hardware_, provenance_, source_names(train_, validation_));
    record_->products(products);
    record_->data(train_, c_.train.steps);
  }

  RunResult go() {
    try {
      loop();
      return conclude();
    } catch (const std::exception& e) {
      // What was measured so far is kept; the error goes on to the user.
      const auto attempt = [](auto&& keep) {
        try {
          keep();
        } catch (const std::exception&) {
          // On a full disk each of these may fail: that must not hide the error, or keep the other from its try.
        }
      };
      attempt([&] { finish_queued(0); });  // the device may have done a step more than was noted
      attempt([&] {
        if (result_.steps > 0) keep_weights();
      });
      record_->fail(e.what(), result_.steps);
      throw;
    }
  }

 private:
  void introduce() {
    progress_.text(plan::to_text(plan_));
    std::int64_t held_out = 0;
    for (const data::NamedSamples& set : validation_) held_out += set.tokens().size();
    progress_.text(
        fmt::format("data        {} training tokens ({} samples an epoch){}", train_.tokens(), train_.samples(),
                    validation_.empty() ? ", no validation" : fmt::format(", {} validation tokens", held_out)));
    if (train_.size() > 1 || train_.phases() > 1 || train_.fill() < 1)
      progress_.text(data::describe(train_, c_.train.steps));
    progress_.text(fmt::format("run         {} steps of {} tokens on {} ({}, {} threads)\n", c_.train.steps,
                               tokens_per_step(c_), hardware_.device_name, hardware_.backend, hardware_.threads));
  }

  // A GPU always has the next step in its queue while the host looks at the last one's result.
  void loop() {
    const StopSignal stop;
    const bool gpu = device_info().is_gpu;
    // A resumed run starts later: data, schedule and random numbers depend on the step alone.
    const std::int64_t first_step = 0;
    const data::BatchLayout layout{.batch = c_.train.batch, .micro_batches = c_.train.accumulation};
    data::Loader loader(
        [&](std::int64_t s, std::int64_t m, data::HostBatch& b) { data::make_batch(train_, layout, s, m, b); },
        layout.micro_batches, first_step, c_.data.prefetch, c_.data.loader_threads);
    std::vector<data::HostBatch> batches(std::size_t(c_.train.accumulation));
    begin_ = Clock::now();
    set_off();
    record_->begin(begin_);
    for (std::int64_t s = first_step; s < c_.train.steps; ++s) {
      if (const int signal = StopSignal::received()) {
        if (finish_queued(0)) stopped(signal);
        return;
      }
      if (!profile_before(s + 1)) return;
      const double waited = loader.wait_seconds();
      for (data::HostBatch& b : batches) loader.next(b);
      const double lr = schedule_.learning_rate(s) * train_.learning_rate_factor(s);
      step_->queue(stream_, s, lr, batches);
      queued_.push_back({s, lr, loader.wait_seconds() - waited});
      const bool last = s + 1 == c_.train.steps;
      const bool evaluate = !validation_.empty() && !last && c_.eval.interval > 0 && (s + 1) % c_.eval.interval == 0;
      if (!finish_queued(evaluate || last || !gpu ? 0 : 1)) return;
      if (evaluate) evaluate_now(c_.eval.samples);
    }
    if (profiler_ && !profiler_->done()) keep_profile();  // its last step is the run's
    if (!validation_.empty()) evaluate_now(c_.eval.final_samples);
  }

  // False: a step that was queued was not finite.
  bool profile_before(std::int64_t step) {
    if (!profiler_ || profiler_->done()) return true;
    if (profiler_->starts_or_ends_at(step)) {
      if (!finish_queued(0)) return false;
      stream_.fence();
      if (profiler_->whole()) {
        keep_profile();
        return true;
      }
    }
    profiler_->before_step(step);
    return true;
  }

  void keep_profile() {
    progress_.text(profiler_->finish([this](measure::Bundle& bundle) {
      bundle.set(provenance_);
      bundle.set(hardware_);
      bundle.set_config(to_toml(c_));
      bundle.set_plan(plan::to_json(plan_).dump(2), {plan_.categories.begin(), plan_.categories.end()});
      bundle.set_flop_ledger(step_ledger(c_));
    }));
    set_off();
  }

  // Takes results until at most `left` steps are queued; false: one was not finite, and no step from it on counts.
  bool finish_queued(std::size_t left) {
    while (queued_.size() > left) {
      const Queued q = queued_.front();
      queued_.pop_front();
      const StepResult r = step_->finish();
      if (!r.finite) {
        diverged(q.step, r);
        while (step_->queued() > 0) step_->finish();
        queued_.clear();
        return false;
      }
      result_.steps = q.step + 1;
      result_.loss = r.loss;
      note({.step = q.step + 1,
            .loss = r.loss,
            .grad_norm = r.grad_norm,
            .learning_rate = q.learning_rate,
            .tokens = tokens_per_step(c_),
            .valid_tokens = r.valid_tokens,
            .step_time_s = r.time_s,
            .data_wait_s = q.data_wait_s,
            .end_s = end_s_ += r.time_s,
            .sources = source_samples(r, train_, q.step + 1)});
    }
    return true;
  }

  void note(const measure::StepSample& sample) {
    record_->step(sample);
    if (profiler_) profiler_->note(sample.step, sample.step_time_s);
    recent_.push_back(sample);
    if (recent_.size() > kRateWindow) recent_.pop_front();
    const bool last = sample.step == c_.train.steps;
    if (!progress_.due(sample.step, last)) return;
    double tokens = 0, time = 0, wait = 0;
    for (const measure::StepSample& r : recent_) {
      tokens += double(r.tokens);
      time += r.step_time_s;
      wait += r.data_wait_s;
    }
    const double rate = tokens / time;
    progress_.step(
        {.step = sample.step,
         .steps = c_.train.steps,
         .loss = sample.loss,
         .grad_norm = sample.grad_norm,
         .learning_rate = sample.learning_rate,
         .tokens_per_s = rate,
         .data_wait_share = wait / time,
         // It counts attention over whole rows: not shown where that is not done.
         .mfu = peak_flops_ > 0 && !c_.data.documents ? rate * plan_.flops_per_token.causal / peak_flops_ : -1,
         .eta_s = seconds_since(begin_) / double(sample.step) * double(c_.train.steps - sample.step)},
        last);
  }

  // No step is queued.
  void evaluate_now(std::int64_t limit) {
    if (profiler_) profiler_->outside_steps();
    const Evaluation e = evaluate(*step_, stream_, validation_, c_.train.batch, limit);
    const measure::EvaluationSample sample{.step = result_.steps,
                                           .loss = e.loss,
                                           .bits_per_byte = e.bits_per_byte,
                                           .tokens = e.tokens,
                                           .time_s = e.time_s,
                                           .sets = source_samples(e)};
    record_->evaluation(sample);
    result_.validation_loss = e.loss;
    result_.validation_bits_per_byte = e.bits_per_byte;
    progress_.text(
        fmt::format("step {}  validation loss {:.4f}{} over {} tokens in {}", result_.steps, e.loss,
                    std::isfinite(e.bits_per_byte) ? fmt::format(", {:.3f} bits per byte,", e.bits_per_byte) : "",
                    e.tokens, format_duration(e.time_s)));
    set_off();
  }

  void set_off() {
    step_->set_off(stream_);
    end_s_ = seconds_since(begin_);
  }

  void stopped(int signal) {
    result_.status = RunStatus::stopped;
    result_.message =
        fmt::format("stopped by SIG{} after step {} of {}; {} written", ::sigabbrev_np(signal), result_.steps,
                    c_.train.steps, c_.output.save_weights ? "weights and bundle are" : "the bundle is");
  }

  void diverged(std::int64_t step, const StepResult& r) {
    result_.status = RunStatus::diverged;
    // The sign of a NaN says nothing.
    const auto plain = [](double x) { return std::isnan(x) ? std::abs(x) : x; };
    result_.message = fmt::format(
        "step {}: {} is not finite (loss {}, gradient norm {}); {}. Lower schedule.learning_rate (now {}) or lengthen "
        "schedule.warmup (now {})",
        step + 1, std::isfinite(r.loss) ? "the gradient norm" : "the loss", plain(r.loss), plain(r.grad_norm),
        c_.output.save_weights
            ? fmt::format("the weights of step {} are kept in '{}'", result_.steps, c_.output.weights)
            : "output.save_weights is off, so none are kept",
        c_.schedule.learning_rate, c_.schedule.warmup);
  }

  // The weights after the last whole step; once.
  void keep_weights() {
    if (!c_.output.save_weights || weights_kept_) return;
    const std::string tokenizer = c_.data.tokenizer.empty() ? train_.tokenizer() : c_.data.tokenizer;
    const TrainStep::EvaluationWeights weights(*step_, stream_);
    save_weights(c_.output.weights, stream_, step_->model(), c_, result_.steps, tokenizer);
    weights_kept_ = true;
  }

  RunResult conclude() {
    keep_weights();
    if (profiler_ && !profiler_->done())
      progress_.text("no profile: the run ended before the last step that was to be profiled");
    const DeviceMemory memory = device_memory();
    record_->end(result_, memory);
    progress_.text(fmt::format("{} steps in {}; memory planned {}, peak {}", result_.steps,
                               format_duration(seconds_since(begin_)), format_bytes(plan_.total_bytes),
                               format_bytes(memory.peak_bytes)));
    progress_.text(fmt::format("bundle {}\nweights {}\nlog {}", c_.output.bundle,
                               c_.output.save_weights ? c_.output.weights : "not kept", c_.output.log));
    return result_;
  }

  measure::Hardware hardware_;
  const Config c_;
  ProgressWriter progress_;
  optimizer::Schedule schedule_;
  data::TrainingData train_;
  std::vector<data::NamedSamples> validation_;
  plan::MemoryPlan plan_;
  double peak_flops_ = 0;  // of the device; 0: not known
  measure::Provenance provenance_;
  std::optional<StepProfiler> profiler_;
  std::optional<RunRecord> record_;
  Stream stream_;
  std::optional<Arena> arena_;
  std::optional<TrainStep> step_;
  std::deque<measure::StepSample> recent_;
  struct Queued {
    std::int64_t step;
    double learning_rate, data_wait_s;
  };
  std::deque<Queued> queued_;  // as in step_
  Clock::time_point begin_ = Clock::now();
  double end_s_ = 0;  // of the last step or evaluation, since begin_
  RunResult result_;
  bool weights_kept_ = false;
};

}  // namespace

RunResult run(const Config& config, const RunOptions& options) { return Run(config, options).go(); }

}  // namespace mylos::train
