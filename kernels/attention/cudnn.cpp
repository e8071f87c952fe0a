// Attention by cuDNN: causal, grouped-query heads, bf16; one document a sequence, or documents in ragged calls. A plan is
// built once for a shape with its strides and kept for the life of the process.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/error.hpp"
#include "kernels/attention/cudnn_plan.hpp"
#include "kernels/attention/document_tables.hpp"
#include "kernels/attention/providers.hpp"
#include "kernels/attention/ragged.hpp"

namespace mylos::kernels::attention::cudnn {
namespace {

constexpr std::int64_t kForwardDocuments = 4 << 20;  // more than the forward pass of documents asks for

PlanKey key_of(const Arguments& a, bool backward) {
  PlanKey key{.shape = a.shape, .backward = backward, .deterministic = !backward || a.options.deterministic};
  const Window windows[8] = {a.q, a.k, a.v, a.out, a.dout, a.dq, a.dk, a.dv};
  for (std::size_t i = 0; i < (backward ? 8u : 4u); ++i) key.strides[i] = strides_of(windows[i]);
  return key;
}

// Of a call for some of the documents.
PlanKey call_key(const PlanKey& whole, std::int64_t room, std::int64_t longest) {
  PlanKey key = whole;
  key.mask = Mask::documents;
  key.shape.batch = room;
  key.shape.sequence = longest;
  if (!key.backward) return key;
  const RaggedCall call = ragged_call(whole.shape, longest, room, whole.deterministic);
  key.deterministic = call.deterministic;
  if (call.packed) key.tokens = whole.shape.batch * whole.shape.sequence;
  return key;
}

// cuDNN's first choice for heads of 64 are tiles of 64 queries by 256 keys, of which short sequences leave much unused: with 128 keys it takes
// 55 us instead of 63 at 512 tokens, 83 instead of 89 at 1,024, and as long as with 256 at 2,048 (H200, cuDNN 9.19). A version of cuDNN
// that has no such kernel keeps its own choice.
std::unique_ptr<Plan> built(const PlanKey& key) {
  constexpr std::int64_t kLongest = 1024, kWidest = 64;
  static const Engine kNarrowTiles{.id = 2, .knobs = {{kTilesKnob, 7}}};
  if (!key.backward && key.mask == Mask::causal && key.shape.sequence <= kLongest && key.shape.head_size <= kWidest)
    try {
      return std::make_unique<Plan>(key, kNarrowTiles);
    } catch (const Error&) {
    }
  return std::make_unique<Plan>(key);
}

const Plan& plan_of(const PlanKey& key) {
  static std::mutex mutex;
  static std::map<PlanKey, std::unique_ptr<Plan>> plans;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plan>& plan = plans[key];
  if (!plan) plan = built(key);
  return *plan;
}

Operands operands_of(const Arguments& a) {
  return {.q = a.q.data,
          .k = a.k.data,
          .v = a.v.data,
          .out = a.out.data,
          .lse = a.lse,
          .dout = a.dout.data,
          .dq = a.dq.data,
          .dk = a.dk.data,
          .dv = a.dv.data};
}

void run_dense(const Stream& stream, const Arguments& a, bool backward) {
  const Plan& plan = plan_of(key_of(a, backward));
  expect_room(a, plan.workspace());
  plan.run(stream, operands_of(a), a.workspace);
}

// One class after another: each call writes the rows of its own documents only.
void run_documents(const Stream& stream, const Arguments& a, bool backward) {
  check(bool(a.bucket), "attention: cuDNN takes documents with a bucket and tables; ask attention_bucket()");
  const DocumentTables tables = tables_of(a.shape, a.bucket);
  const PlanKey whole = key_of(a, backward);
  for (std::size_t i = 0; i < (backward ? 8u : 4u); ++i)
    check(whole.strides[i][0] == a.shape.sequence * whole.strides[i][1],
          "attention: {} elements from row to row of {} tokens of {}; documents want rows without gaps between them",
          whole.strides[i][0], a.shape.sequence, whole.strides[i][1]);
  for (const DocumentClass& c : std::span(tables.classes).first(std::size_t(tables.count))) {
    const Plan& plan = plan_of(call_key(whole, c.room, c.longest));
    expect_room(a, plan.workspace());
    char* const memory = static_cast<char*>(a.tables);
    Operands o = operands_of(a);
    o.lengths = memory + c.lengths;
    for (std::size_t i = 0; i < plan.rows().size(); ++i) {
      const auto width = std::find(tables.widths.begin(), tables.widths.end(), plan.rows()[i]);
      check(width != tables.widths.end(),
            "attention: a token of {} elements; documents want windows of a projection q|k|v or q|k, or dense tensors",
            plan.rows()[i]);
      o.offsets[i] = memory + c.offsets + (width - tables.widths.begin()) * (c.room + 1) * 8;
    }
    plan.run(stream, o, a.workspace);
  }
}

void execute(const Stream& stream, const Arguments& a, bool backward) {
  a.document_start == nullptr ? run_dense(stream, a, backward) : run_documents(stream, a, backward);
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
  const std::int64_t bytes = plan_of(key).workspace();
  if (!options.documents) return bytes;
  return std::max(bytes, backward ? ragged_budget(s, key.deterministic) : kForwardDocuments);
}

void forward(const Stream& stream, const Arguments& a) { execute(stream, a, false); }
void backward(const Stream& stream, const Arguments& a) { execute(stream, a, true); }

}  // namespace mylos::kernels::attention::cudnn
