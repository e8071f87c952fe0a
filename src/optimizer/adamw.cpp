#include "optimizer/adamw.hpp"

#include "base/error.hpp"
#include "kernels/adamw/adamw.hpp"
#include "kernels/norm/norm.hpp"
#include "tensor/region.hpp"

namespace mylos::optimizer {
namespace {
constexpr const char* kCategory = "optimizer";

bool has_low_bits(const OptimizerConfig& config, DType storage) {
  return storage == DType::bf16 && config.master == Master::exact;
}
}  // namespace

double state_bytes_moved(const OptimizerConfig& config, DType storage) {
  const std::int64_t kept = 2 * size_of(config.moments) + (has_low_bits(config, storage) ? size_of(DType::u16) : 0);
  return 2.0 * double(kept);
}

AdamW::AdamW(const OptimizerConfig& config, const FlatRange& range, DType storage, std::uint64_t seed, Arena& arena)
    : config_(config), range_(range), storage_(storage), seed_(seed) {
  check(range.total > 0 && range.decay_end >= 0 && range.decay_end <= range.total,
        "the range with weight decay ends at {} of {} elements", range.decay_end, range.total);
  check(storage == DType::f32 || storage == DType::bf16, "weights are {}; AdamW takes f32 or bf16", name_of(storage));
  m_ = arena.take(config.moments, {range.total}, kCategory);
  v_ = arena.take(config.moments, {range.total}, kCategory);
  if (has_low_bits(config, storage)) low_ = arena.take(DType::u16, {range.total}, kCategory);
  squares_ = arena.take(DType::f64, {1}, kCategory);
  norm_and_scale_ = arena.take(DType::f32, {2}, kCategory);
  workspace_ = arena.take(DType::u8, {kernels::sum_workspace()}, kCategory);
}

void AdamW::initialize(const Stream& stream) {
  fill_zero(stream, m_);
  fill_zero(stream, v_);
  if (low_) fill_zero(stream, low_);  // the master is the bf16 weight itself: its lower bits are zero
  fill_zero(stream, norm_and_scale_);
}

void AdamW::update(const Stream& stream, std::int64_t step, double learning_rate, const Tensor& weights,
                   const Tensor& gradients) {
  expect("AdamW::update", "weights", weights, storage_, {range_.total});
  expect_shape("AdamW::update", "gradients", gradients, {range_.total});
  {
    const Region region(stream, "optimizer", "norm");
    kernels::sum_of_squares(stream, gradients, workspace_, squares_);
    kernels::clip_scale(stream, squares_, float(config_.max_grad_norm), norm_and_scale_);
  }
  const Tensor scale = norm_and_scale_.slice(0, 1, 2);

  kernels::AdamWStep s{.learning_rate = float(learning_rate),
                       .beta1 = float(config_.beta1),
                       .beta2 = float(config_.beta2),
                       .eps = float(config_.eps),
                       .weight_decay = float(config_.weight_decay),
                       .step = step + 1,
                       .seed = seed_};
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    const auto window = [&](const Tensor& t) { return t ? t.slice(0, begin, end) : t; };
    s.first_index = std::uint64_t(begin);
    kernels::adamw(stream, s, window(gradients), scale, window(weights), window(low_), window(m_), window(v_));
  };
  const Region region(stream, "optimizer", "optimizer");
  part(0, range_.decay_end);
  s.weight_decay = 0.0f;
  part(range_.decay_end, range_.total);
}

}  // namespace mylos::optimizer
