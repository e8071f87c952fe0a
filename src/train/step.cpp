#include "train/step.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/host_memory.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"

namespace mylos::train {
namespace {
constexpr const char* kCategory = "batch";
}  // namespace

StepMemory::StepMemory(const Config& config, const model::ParameterLayout& layout, Arena& arena)
    : optimizer(optimizer::make_optimizer(config.optimizer, optimizer::parameters_of(config.model, layout),
                                          config.train.storage, std::uint64_t(config.train.seed), arena)),
      batch(config, arena),
      grad_scale(arena.take(DType::f32, {1}, kCategory)),
      row_loss(arena.take(DType::f64, {config.train.batch}, kCategory)) {}

plan::MemoryPlan plan_run(const Config& config) {
  return plan::plan_memory(config.model, execution(config), [&](Arena& arena, const model::Transformer& model) {
    StepMemory(config, model.layout(), arena);
  });
}

std::int64_t memory_for_run() {
  constexpr std::int64_t kLibraries = std::int64_t(2) << 30;
  const DeviceInfo device = device_info();
  if (device.is_gpu) return device.memory_bytes - kLibraries;
  const std::int64_t available = available_host_memory();
  return (available < 0 ? device.memory_bytes : std::min(available, device.memory_bytes)) / 16 * 15;
}

Config with_recompute(Config config, std::int64_t memory_bytes) {
  if (config.train.recompute != model::Recompute::automatic) return config;
  const auto fits = [&] { return plan_run(config).total_bytes <= memory_bytes; };
  for (const model::Recompute r : {model::Recompute::none, model::Recompute::selective, model::Recompute::full}) {
    config.train.recompute = r;
    config.train.recompute_blocks = 0;
    if (!fits()) continue;
    if (r == model::Recompute::none) return config;
    do ++config.train.recompute_blocks;
    while (config.train.recompute_blocks < config.model.layers && !fits());
    if (config.train.recompute_blocks == config.model.layers) config.train.recompute_blocks = 0;
    return config;
  }
  return config;
}

Config with_swiglu(Config config) {
  if (config.train.swiglu != Swiglu::automatic) return config;
  const auto pays = [&](auto rule) {
    return rule(config.train.storage, config.train.batch * config.train.sequence, config.model.dim, config.model.ffn);
  };
  config.train.swiglu = pays(kernels::fused_swiglu_forward_pays)    ? Swiglu::fused
                        : pays(kernels::fused_swiglu_backward_pays) ? Swiglu::backward
                                                                    : Swiglu::apart;
  return config;
}

namespace {
// Offsets in a slot of the results, in bytes.
constexpr std::int64_t kGradScale = 0, kNorm = 8, kScale = 12, kRows = 16;
}  // namespace

std::int64_t TrainStep::result_at(std::size_t slot) const { return std::int64_t(slot) * result_bytes_; }

TrainStep::TrainStep(const Config& config, Arena& arena)
    : seed_(std::uint64_t(config.train.seed)),
      model_(config.model, execution(config), arena),
      memory_(config, model_.layout(), arena),
      graphs_(config.train.graphs && Graph::available()),
      batch_rows_(config.train.batch),
      result_bytes_(kRows + 8 * config.train.batch * config.train.accumulation),
      results_(std::make_unique<HostBuffer>(std::int64_t(kSlots) * result_bytes_, "results of steps")) {
  memory_.optimizer->use_graphs(graphs_);
}

void TrainStep::initialize(const Stream& stream) {
  model_.initialize(stream, seed_);
  memory_.optimizer->initialize(stream, model_.weights());
}

void TrainStep::set_off(const Stream& stream) {
  check(pending_.empty(), "the time of a step cannot start anew while {} are queued", pending_.size());
  set_off_.record(stream);
  before_ = &set_off_;
}

// The first time by hand: libraries load and plans are made, which a recording cannot hold.
void TrainStep::micro_batch(const Stream& stream, bool first) {
  const auto work = [&] {
    model_.forward_backward(stream, memory_.batch.batch(), memory_.grad_scale, first, memory_.row_loss);
  };
  const std::pair kind{first, memory_.batch.bucket()};
  const auto known = recorded_.find(kind);
  if (known == recorded_.end()) {
    // Documents of ever other lengths: recordings that are seldom replayed are not worth their memory.
    if (graphs_ && recorded_.size() < kMostRecorded) recorded_.emplace(kind, std::nullopt);
    work();
    return;
  }
  if (!known->second) known->second.emplace(stream, work);
  known->second->launch(stream);
}

void TrainStep::queue(const Stream& stream, std::int64_t step, double learning_rate,
                      std::span<const data::HostBatch> micro_batches) {
  check(pending_.size() < kMostQueued, "step {} cannot be queued: {} are; take a result with finish() first", step + 1,
        pending_.size());
  check(!averaged_, "step {} cannot be queued while the model has the weights of an evaluation", step + 1);
  std::int64_t valid_tokens = 0;
  for (const data::HostBatch& b : micro_batches) valid_tokens += b.valid_tokens;
  if (before_ == nullptr) set_off(stream);
  check(valid_tokens > 0,
        "step {} has no token to learn from: every label of its {} micro-batches is ignored, as in documents of one "
        "token "
        "or padding; use larger batches or data without them",
        step + 1, micro_batches.size());
  Pending pending{next_slot_, valid_tokens, {}};
  const std::int64_t at = result_at(next_slot_);
  const auto grad_scale = float(1.0 / double(valid_tokens));
  std::memcpy(static_cast<char*>(results_->data()) + at + kGradScale, &grad_scale, sizeof grad_scale);
  queue_upload(stream, *results_, at + kGradScale, memory_.grad_scale);
  for (const data::HostBatch& b : micro_batches) {
    const bool first = pending.rows.empty();
    memory_.batch.upload(stream, b);
    micro_batch(stream, first);
    queue_download(stream, memory_.row_loss, *results_, at + kRows + 8 * std::int64_t(pending.rows.size()));
    for (std::size_t row = 0; row < std::size_t(batch_rows_); ++row)
      pending.rows.push_back({b.sources[row], b.row_labels[row]});
  }
  memory_.optimizer->update(stream, step, learning_rate, model_.weights(), model_.gradients());
  queue_download(stream, memory_.optimizer->norm_and_scale(), *results_, at + kNorm);
  done_[next_slot_].record(stream);
  next_slot_ = (next_slot_ + 1) % kSlots;
  pending_.push_back(std::move(pending));
}

StepResult TrainStep::finish() {
  check(!pending_.empty(), "no step is queued");
  const Pending p = std::move(pending_.front());
  pending_.pop_front();
  done_[p.slot].wait();
  const char* from = static_cast<const char*>(results_->data()) + result_at(p.slot);
  float norm, scale;
  std::memcpy(&norm, from + kNorm, sizeof norm);
  std::memcpy(&scale, from + kScale, sizeof scale);
  StepResult result{.loss = 0,
                    .sources = {},
                    .grad_norm = norm,
                    .valid_tokens = p.valid_tokens,
                    .time_s = done_[p.slot].seconds_since(*before_)};
  double loss_sum = 0;
  for (std::size_t i = 0; i < p.rows.size(); ++i) {
    double loss;
    std::memcpy(&loss, from + kRows + 8 * std::int64_t(i), sizeof loss);
    loss_sum += loss;
    if (p.rows[i].source < 0) continue;
    const auto source = std::size_t(p.rows[i].source);
    if (result.sources.size() <= source) result.sources.resize(source + 1);
    result.sources[source].loss_sum += loss;
    result.sources[source].valid_tokens += p.rows[i].valid_tokens;
  }
  result.loss = loss_sum / double(p.valid_tokens);
  before_ = &done_[p.slot];
  result.finite = std::isfinite(result.loss) && std::isfinite(norm) && std::isfinite(scale);
  return result;
}

StepResult TrainStep::run(const Stream& stream, std::int64_t step, double learning_rate,
                          std::span<const data::HostBatch> micro_batches) {
  check(pending_.empty(), "step {} asked for while {} are queued", step + 1, pending_.size());
  queue(stream, step, learning_rate, micro_batches);
  return finish();
}

TrainStep::EvaluationWeights::EvaluationWeights(TrainStep& step, const Stream& stream)
    : step_(step.optimizer().averages() && !step.averaged_ ? &step : nullptr), stream_(stream) {
  if (step_ == nullptr) return;
  check(step.queued() == 0, "the weights of an evaluation were asked for while {} steps are queued", step.queued());
  step.memory_.optimizer->show_average(stream, step.model_.weights(), step.model_.gradients());
  step.averaged_ = true;
}

TrainStep::EvaluationWeights::~EvaluationWeights() {
  if (step_ == nullptr) return;
  try {
    step_->memory_.optimizer->show_training(stream_, step_->model_.weights(), step_->model_.gradients());
    step_->averaged_ = false;
  } catch (const std::exception&) {
    // A copy fails only on a device that is lost: the next call there says so, and no step can be queued.
  }
}

double TrainStep::loss_sum(const Stream& stream, const data::HostBatch& batch) {
  memory_.batch.upload(stream, batch);
  model_.evaluate(stream, memory_.batch.batch(), memory_.row_loss);
  std::vector<double> rows(static_cast<std::size_t>(batch_rows_));
  download(stream, memory_.row_loss, rows.data(), memory_.row_loss.bytes());
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

}  // namespace mylos::train
