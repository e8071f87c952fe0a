// Attention by cuDNN: causal, grouped-query heads, one document a sequence, bf16. A plan is built once for a shape with
// its strides and kept for the life of the process.
#include <map>
#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "kernels/attention/cudnn_plan.hpp"
#include "kernels/attention/providers.hpp"

namespace mylos::kernels::attention::cudnn {
namespace {

PlanKey key_of(const Arguments& a, bool backward) {
  PlanKey key{.shape = a.shape, .backward = backward, .deterministic = !backward || a.options.deterministic};
  const Window windows[8] = {a.q, a.k, a.v, a.out, a.dout, a.dq, a.dk, a.dv};
  for (std::size_t i = 0; i < (backward ? 8u : 4u); ++i) key.strides[i] = strides_of(windows[i]);
  return key;
}

const Plan& plan_of(const PlanKey& key) {
  static std::mutex mutex;
  static std::map<PlanKey, std::unique_ptr<Plan>> plans;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plan>& plan = plans[key];
  if (!plan) plan = std::make_unique<Plan>(key);
  return *plan;
}

void execute(const Stream& stream, const Arguments& a, bool backward) {
  const Plan& plan = plan_of(key_of(a, backward));
  const std::int64_t wanted = plan.workspace();
  check(a.workspace_bytes >= wanted, "attention: workspace of {} bytes, cuDNN needs {}", a.workspace_bytes, wanted);
  plan.run(stream,
           {a.q.data, a.k.data, a.v.data, a.out.data, a.lse, a.dout.data, a.dq.data, a.dk.data, a.dv.data, {}, {}, {}},
           a.workspace);
}

}  // namespace

bool supports(const AttentionShape& s, DType dtype) {
  return dtype == DType::bf16 && s.head_size % 8 == 0 && s.head_size <= 128 && s.sequence > 1;
}

std::int64_t workspace_bytes(const AttentionShape& s, bool backward, const AttentionOptions& options) {
  // Windows of a fused projection q | k | v, as the model lays them out; the size does not depend on the strides.
  const std::int64_t row = (s.heads + 2 * s.kv_heads) * s.head_size, out = s.heads * s.head_size;
  const Strides fused{s.sequence * row, row, s.head_size}, dense{s.sequence * out, out, s.head_size};
  PlanKey key{.shape = s, .backward = backward, .deterministic = !backward || options.deterministic};
  key.strides = {fused, fused, fused, dense};
  if (backward) key.strides = {fused, fused, fused, dense, dense, fused, fused, fused};
  return plan_of(key).workspace();
}

void forward(const Stream& stream, const Arguments& a) { execute(stream, a, false); }
void backward(const Stream& stream, const Arguments& a) { execute(stream, a, true); }

}  // namespace mylos::kernels::attention::cudnn
