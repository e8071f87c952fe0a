#include "model/parameters.hpp"

#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos::model {
namespace {

// 256 bytes in bf16: every parameter starts where 16-byte packs and cuBLASLt's best algorithms may be used.
constexpr std::int64_t kAlignElements = 128;

class LayoutBuilder {
 public:
  void add(std::string name, std::vector<std::int64_t> shape, bool decay, double init_std) {
    std::int64_t size = 1;
    for (std::int64_t e : shape) size *= e;
    layout.places.emplace(name, layout.parameters.size());
    layout.parameters.push_back({std::move(name), std::move(shape), decay, init_std, layout.total, size});
    layout.count += size;
    layout.total += (size + kAlignElements - 1) / kAlignElements * kAlignElements;
  }
  ParameterLayout layout{{}, {}, 0, 0, 0, 0};
};

}  // namespace

ParameterLayout parameter_layout(const ModelConfig& c) {
  check(c.kv_heads > 0 && c.head_size > 0 && c.ffn > 0,
        "parameter_layout wants a resolved model: kv_heads {}, head_size {} and ffn {} must be above 0; call resolve() "
        "first",
        c.kv_heads, c.head_size, c.ffn);
  const std::int64_t D = c.dim, h = c.head_size, F = c.ffn;
  const double std_dev = c.init_std;
  // Each block adds two branches to the residual stream; this keeps the variance of their sum independent of depth
  // (GPT-2).
  const double residual_std = c.init_std / std::sqrt(2.0 * double(c.layers));
  LayoutBuilder b;
  b.add("embedding.weight", {c.vocab, D}, true, std_dev);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    b.add(layer + "attention.qkv.weight", {(c.heads + 2 * c.kv_heads) * h, D}, true, std_dev);
    b.add(layer + "attention.output.weight", {D, c.heads * h}, true, residual_std);
    b.add(layer + "ffn.gate_up.weight", {2 * F, D}, true, std_dev);
    b.add(layer + "ffn.down.weight", {D, F}, true, residual_std);
  }
  if (!c.tied_head) b.add("head.weight", {c.vocab, D}, true, std_dev);
  b.layout.decay_end = b.layout.total;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    b.add(layer + "attention.norm.weight", {D}, false, 0.0);
    b.add(layer + "ffn.norm.weight", {D}, false, 0.0);
    if (c.qk_norm) {
      b.add(layer + "attention.q_norm.weight", {h}, false, 0.0);
      b.add(layer + "attention.k_norm.weight", {h}, false, 0.0);
    }
  }
  b.add("norm.weight", {D}, false, 0.0);
  b.layout.embedding_count = c.tied_head ? 0 : c.vocab * D;
  return std::move(b.layout);
}

const ParameterInfo& ParameterLayout::find(const std::string& name) const {
  if (const auto found = places.find(name); found != places.end()) return parameters[found->second];
  std::vector<std::string> known;
  for (const ParameterInfo& p : parameters) known.push_back(p.name);
  const std::string nearest = nearest_name(name, known);
  fail("the model has no parameter '{}'; {}", name,
       nearest.empty() ? "names are like 'layers.0.ffn.down.weight'" : "did you mean '" + nearest + "'?");
}

Tensor ParameterLayout::window(const Tensor& flat, const ParameterInfo& info) const {
  check(flat.rank() == 1 && flat.size() == total, "parameter {}: the flat buffer is {}, the layout has {} elements",
        info.name, flat.describe(), total);
  if (flat.data() == nullptr) return Tensor(nullptr, flat.dtype(), info.shape);
  void* begin = static_cast<std::byte*>(flat.data()) + info.offset * size_of(flat.dtype());
  return Tensor(begin, flat.dtype(), info.shape);
}

}  // namespace mylos::model
