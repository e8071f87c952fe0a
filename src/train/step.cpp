#include "train/step.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/error.hpp"
#include "base/host_memory.hpp"

namespace mylos::train {
namespace {
constexpr const char* kCategory = "batch";
constexpr std::int64_t kParts = 4;  // tokens, labels, positions, document_start
}  // namespace

DeviceBatch::DeviceBatch(std::int64_t batch, std::int64_t sequence, bool with_documents, Arena& arena)
    : all_(arena.take(DType::i32, {kParts * batch * sequence + 1}, kCategory)), sequences_(batch), length_(sequence) {
  const std::int64_t size = batch * sequence;
  const auto part = [&](std::int64_t i) { return all_.slice(0, i * size, (i + 1) * size).reshape({batch, sequence}); };
  batch_ = {.tokens = part(0),
            .labels = part(1),
            .positions = part(2),
            .document_start = with_documents ? part(3) : Tensor()};
  grad_scale_ = all_.slice(0, kParts * size, kParts * size + 1).view_as(DType::f32);
}

void DeviceBatch::upload(const Stream& stream, const data::HostBatch& host, float grad_scale) {
  check(host.batch == sequences_ && host.sequence == length_, "a batch of {} x {} tokens for buffers of {} x {}",
        host.batch, host.sequence, sequences_, length_);
  if (slots_.empty()) {
    slots_.resize(kSlots);
    for (Slot& s : slots_) s.memory = std::make_unique<HostBuffer>(all_.bytes(), "micro-batch");
  }
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  slot.sent.wait();
  auto* to = static_cast<std::int32_t*>(slot.memory->data());
  for (const auto* part : {&host.tokens, &host.labels, &host.positions, &host.document_start})
    to = std::copy(part->begin(), part->end(), to);
  *to = std::bit_cast<std::int32_t>(grad_scale);
  queue_upload(stream, *slot.memory, 0, all_);
  slot.sent.record(stream);
}

StepMemory::StepMemory(const Config& config, const model::ParameterLayout& layout, Arena& arena)
    : optimizer(config.optimizer, {layout.decay_end, layout.total}, config.train.storage,
                std::uint64_t(config.train.seed), arena),
      batch(config.train.batch, config.train.sequence, config.data.documents, arena),
      loss_sum(arena.take(DType::f64, {1}, kCategory)) {}

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

// What comes back of a step; loss_sum and norm_and_scale lie on the device as here.
struct TrainStep::Result {
  double loss_sum;
  float norm, scale;
};

TrainStep::TrainStep(const Config& config, Arena& arena)
    : seed_(std::uint64_t(config.train.seed)),
      model_(config.model, execution(config), arena),
      memory_(config, model_.layout(), arena),
      graphs_(config.train.graphs && Graph::available()),
      results_(std::make_unique<HostBuffer>(std::int64_t(kSlots * sizeof(Result)), "results of steps")) {}

void TrainStep::initialize(const Stream& stream) {
  model_.initialize(stream, seed_);
  memory_.optimizer.initialize(stream);
}

void TrainStep::set_off(const Stream& stream) {
  check(pending_.empty(), "the time of a step cannot start anew while {} are queued", pending_.size());
  set_off_.record(stream);
  before_ = &set_off_;
}

// The first time by hand: libraries load and plans are made, which a recording cannot hold.
void TrainStep::micro_batch(const Stream& stream, bool first) {
  const auto work = [&] {
    model_.forward_backward(stream, memory_.batch.batch(), memory_.batch.grad_scale(), first, memory_.loss_sum);
  };
  Recorded& recorded = recorded_[first ? 1 : 0];
  if (!graphs_ || !recorded.ran) {
    work();
    recorded.ran = true;
    return;
  }
  if (!recorded.graph) recorded.graph.emplace(stream, work);
  recorded.graph->launch(stream);
}

void TrainStep::queue(const Stream& stream, std::int64_t step, double learning_rate,
                      std::span<const data::HostBatch> micro_batches) {
  check(pending_.size() < kMostQueued, "step {} cannot be queued: {} are; take a result with finish() first", step + 1,
        pending_.size());
  std::int64_t valid_tokens = 0;
  for (const data::HostBatch& b : micro_batches) valid_tokens += b.valid_tokens;
  if (before_ == nullptr) set_off(stream);
  check(valid_tokens > 0, "step {} has no token to learn from: every label of its {} micro-batches is ignored",
        step + 1, micro_batches.size());
  const auto grad_scale = float(1.0 / double(valid_tokens));

  fill_zero(stream, memory_.loss_sum);
  bool first = true;
  for (const data::HostBatch& b : micro_batches) {
    memory_.batch.upload(stream, b, grad_scale);
    micro_batch(stream, first);
    first = false;
  }
  memory_.optimizer.update(stream, step, learning_rate, model_.weights(), model_.gradients());

  const std::size_t slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % kSlots;
  const auto at = std::int64_t(slot * sizeof(Result));
  queue_download(stream, memory_.loss_sum, *results_, at + std::int64_t(offsetof(Result, loss_sum)));
  queue_download(stream, memory_.optimizer.norm_and_scale(), *results_, at + std::int64_t(offsetof(Result, norm)));
  done_[slot].record(stream);
  pending_.push_back({slot, valid_tokens});
}

StepResult TrainStep::finish() {
  check(!pending_.empty(), "no step is queued");
  const Pending p = pending_.front();
  pending_.pop_front();
  done_[p.slot].wait();
  const Result& r = static_cast<const Result*>(results_->data())[p.slot];
  StepResult result{.loss = r.loss_sum / double(p.valid_tokens),
                    .grad_norm = r.norm,
                    .valid_tokens = p.valid_tokens,
                    .time_s = done_[p.slot].seconds_since(*before_)};
  before_ = &done_[p.slot];
  result.finite = std::isfinite(result.loss) && std::isfinite(r.norm) && std::isfinite(r.scale);
  return result;
}

StepResult TrainStep::run(const Stream& stream, std::int64_t step, double learning_rate,
                          std::span<const data::HostBatch> micro_batches) {
  check(pending_.empty(), "step {} asked for while {} are queued", step + 1, pending_.size());
  queue(stream, step, learning_rate, micro_batches);
  return finish();
}

double TrainStep::loss_sum(const Stream& stream, const data::HostBatch& batch) {
  fill_zero(stream, memory_.loss_sum);
  memory_.batch.upload(stream, batch, 0.0f);
  model_.evaluate(stream, memory_.batch.batch(), memory_.loss_sum);
  double sum = 0;
  download(stream, memory_.loss_sum, &sum, sizeof sum);
  return sum;
}

}  // namespace mylos::train
