#include "train/step.hpp"

#include <cmath>

#include "base/error.hpp"

namespace mylos::train {
namespace {
constexpr const char* kCategory = "batch";
constexpr std::int64_t kParts = 4;  // tokens, labels, positions, document_start
}  // namespace

DeviceBatch::DeviceBatch(std::int64_t batch, std::int64_t sequence, bool with_documents, Arena& arena)
    : all_(arena.take(DType::i32, {kParts, batch, sequence}, kCategory)) {
  const auto part = [&](std::int64_t i) { return all_.slice(0, i, i + 1).reshape({batch, sequence}); };
  batch_ = {.tokens = part(0),
            .labels = part(1),
            .positions = part(2),
            .document_start = with_documents ? part(3) : Tensor()};
}

void DeviceBatch::upload(const Stream& stream, const data::HostBatch& host) {
  const std::int64_t B = all_.extent(1), S = all_.extent(2);
  check(host.batch == B && host.sequence == S, "a batch of {} x {} tokens for buffers of {} x {}", host.batch,
        host.sequence, B, S);
  staging_.clear();
  for (const auto* part : {&host.tokens, &host.labels, &host.positions, &host.document_start})
    staging_.insert(staging_.end(), part->begin(), part->end());
  mylos::upload(stream, staging_.data(), std::int64_t(staging_.size() * sizeof(std::int32_t)), all_);
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

TrainStep::TrainStep(const Config& config, Arena& arena)
    : seed_(std::uint64_t(config.train.seed)),
      model_(config.model, execution(config), arena),
      memory_(config, model_.layout(), arena) {}

void TrainStep::initialize(const Stream& stream) {
  model_.initialize(stream, seed_);
  memory_.optimizer.initialize(stream);
}

StepResult TrainStep::run(const Stream& stream, std::int64_t step, double learning_rate,
                          std::span<const data::HostBatch> micro_batches) {
  StepResult result;
  for (const data::HostBatch& b : micro_batches) result.valid_tokens += b.valid_tokens;
  check(result.valid_tokens > 0, "step {} has no token to learn from: every label of its {} micro-batches is ignored",
        step + 1, micro_batches.size());
  const auto grad_scale = float(1.0 / double(result.valid_tokens));

  fill_zero(stream, memory_.loss_sum);
  bool first = true;
  for (const data::HostBatch& b : micro_batches) {
    memory_.batch.upload(stream, b);
    model_.forward_backward(stream, memory_.batch.batch(), grad_scale, first, memory_.loss_sum);
    first = false;
  }
  memory_.optimizer.update(stream, step, learning_rate, model_.weights(), model_.gradients());

  double sum = 0;
  float norm_and_scale[2];
  download(stream, memory_.loss_sum, &sum, sizeof sum);
  download(stream, memory_.optimizer.norm_and_scale(), norm_and_scale, sizeof norm_and_scale);
  result.loss = sum / double(result.valid_tokens);
  result.grad_norm = norm_and_scale[0];
  result.finite = std::isfinite(result.loss) && std::isfinite(norm_and_scale[0]);
  return result;
}

double TrainStep::loss_sum(const Stream& stream, const data::HostBatch& batch) {
  fill_zero(stream, memory_.loss_sum);
  memory_.batch.upload(stream, batch);
  model_.evaluate(stream, memory_.batch.batch(), memory_.loss_sum);
  double sum = 0;
  download(stream, memory_.loss_sum, &sum, sizeof sum);
  return sum;
}

}  // namespace mylos::train
