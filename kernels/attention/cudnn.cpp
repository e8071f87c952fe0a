// Attention by cuDNN: causal, grouped-query heads, one document a sequence, bf16.
//
// A graph is built once for a shape with its strides and kept for the life of the process; execution neither allocates
// device memory nor synchronises nor asks for events, so that a stream may be captured.
#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "kernels/attention/providers.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::kernels::attention::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;

// Names of the tensors in a graph; execution binds addresses to them in ascending order.
enum Uid : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

void ok(fe::error_t e, const char* what) {
  check(e.is_good(), "attention: cuDNN {} failed: {}", what, e.get_message());
}

cudnnHandle_t handle() {
  static const cudnnHandle_t h = [] {
    cudnnHandle_t made = nullptr;
    const cudnnStatus_t s = cudnnCreate(&made);
    check(s == CUDNN_STATUS_SUCCESS, "attention: cuDNN could not be started: {}", cudnnGetErrorString(s));
    return made;
  }();
  return h;
}

using Strides = std::array<std::int64_t, 3>;  // batch, token, head
Strides strides_of(const Window& w) { return {w.batch, w.token, w.head}; }

struct Key {
  AttentionShape shape;
  bool backward, deterministic;
  std::array<Strides, 8> strides;  // q, k, v, out; backward also dout, dq, dk, dv
  auto tie() const {
    return std::tie(shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_size, backward, deterministic,
                    strides);
  }
  bool operator<(const Key& o) const { return tie() < o.tie(); }
};

Key key_of(const Arguments& a, bool backward) {
  Key key{a.shape,
          backward,
          !backward || a.options.deterministic,
          {strides_of(a.q), strides_of(a.k), strides_of(a.v), strides_of(a.out)}};
  if (backward) {
    const Window gradients[4] = {a.dout, a.dq, a.dk, a.dv};
    for (std::size_t i = 0; i < 4; ++i) key.strides[4 + i] = strides_of(gradients[i]);
  }
  return key;
}

struct Plan {
  fe::graph::Graph graph;
  std::int64_t workspace = 0;
};

Attributes described(Attributes t, Uid uid, const AttentionShape& s, std::int64_t heads, const Strides& strides) {
  return t.set_uid(uid)
      .set_dim({s.batch, heads, s.sequence, s.head_size})
      .set_stride({strides[0], strides[2], strides[1], 1});
}

std::unique_ptr<Plan> build(const Key& key) {
  const AttentionShape& s = key.shape;
  auto plan = std::make_unique<Plan>();
  fe::graph::Graph& g = plan->graph;
  g.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto input = [&](const char* name, Uid uid, std::int64_t heads, std::size_t i) {
    return g.tensor(described(Attributes().set_name(name), uid, s, heads, key.strides[i]));
  };
  const auto output = [&](const std::shared_ptr<Attributes>& t, Uid uid, std::int64_t heads, std::size_t i) {
    *t = described(*t, uid, s, heads, key.strides[i]).set_output(true);
  };
  const float scale = 1.0f / std::sqrt(float(s.head_size));
  const std::vector<std::int64_t> lse_dim{s.batch, s.heads, s.sequence, 1};
  const std::vector<std::int64_t> lse_stride{s.heads * s.sequence, s.sequence, 1, 1};
  const auto q = input("q", kQ, s.heads, 0), k = input("k", kK, s.kv_heads, 1), v = input("v", kV, s.kv_heads, 2);
  if (!key.backward) {
    auto options = fe::graph::SDPA_attributes().set_name("mylos::attention::forward").set_generate_stats(true);
    options.set_causal_mask(true).set_attn_scale(scale);
    auto [out, lse] = g.sdpa(q, k, v, options);
    output(out, kOut, s.heads, 3);
    lse->set_output(true).set_uid(kLse).set_data_type(fe::DataType_t::FLOAT).set_dim(lse_dim).set_stride(lse_stride);
  } else {
    const auto out = input("out", kOut, s.heads, 3), dout = input("dout", kDout, s.heads, 4);
    const auto lse = g.tensor(Attributes()
                                  .set_name("lse")
                                  .set_uid(kLse)
                                  .set_dim(lse_dim)
                                  .set_stride(lse_stride)
                                  .set_data_type(fe::DataType_t::FLOAT));
    auto options = fe::graph::SDPA_backward_attributes().set_name("mylos::attention::backward");
    options.set_causal_mask(true).set_attn_scale(scale).set_deterministic_algorithm(key.deterministic);
    auto [dq, dk, dv] = g.sdpa_backward(q, k, v, out, dout, lse, options);
    output(dq, kDq, s.heads, 5);
    output(dk, kDk, s.kv_heads, 6);
    output(dv, kDv, s.kv_heads, 7);
  }
  ok(g.validate(), "validation");
  ok(g.build_operation_graph(handle()), "building the graph");
  ok(g.create_execution_plans({fe::HeurMode_t::A}), "choosing a plan");
  ok(g.check_support(handle()), "support check");
  ok(g.build_plans(handle()), "building the plan");
  ok(g.get_workspace_size(plan->workspace), "workspace query");
  return plan;
}

Plan& plan_of(const Key& key) {
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<Plan>> plans;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plan>& plan = plans[key];
  if (!plan) plan = build(key);
  return *plan;
}

void execute(const Stream& stream, const Arguments& a, bool backward) {
  Plan& plan = plan_of(key_of(a, backward));
  check(a.workspace_bytes >= plan.workspace, "attention: workspace of {} bytes, cuDNN needs {}", a.workspace_bytes,
        plan.workspace);
  const cudnnStatus_t s = cudnnSetStream(handle(), static_cast<cudaStream_t>(device::native_stream(stream)));
  check(s == CUDNN_STATUS_SUCCESS, "attention: cuDNN refused the stream: {}", cudnnGetErrorString(s));
  // In the order of Uid, which spares the frontend a map a call.
  void* addresses[kDv] = {a.q.data,    a.k.data,  a.v.data,  a.out.data, a.lse,
                          a.dout.data, a.dq.data, a.dk.data, a.dv.data};
  ok(plan.graph.execute(handle(), addresses, backward ? kDv : kLse, a.workspace), "launch");
}

}  // namespace

bool supports(const AttentionShape& s, DType dtype) {
  return dtype == DType::bf16 && s.head_size % 8 == 0 && s.head_size <= 128 && s.sequence > 1;
}

std::int64_t workspace_bytes(const AttentionShape& s, bool backward, const AttentionOptions& options) {
  // Windows of a fused projection q | k | v, as the model lays them out; the size does not depend on the strides.
  const std::int64_t row = (s.heads + 2 * s.kv_heads) * s.head_size, out = s.heads * s.head_size;
  const Strides fused{s.sequence * row, row, s.head_size}, dense{s.sequence * out, out, s.head_size};
  Key key{s, backward, !backward || options.deterministic, {fused, fused, fused, dense}};
  if (backward) key.strides = {fused, fused, fused, dense, dense, fused, fused, fused};
  return plan_of(key).workspace;
}

void forward(const Stream& stream, const Arguments& a) { execute(stream, a, false); }
void backward(const Stream& stream, const Arguments& a) { execute(stream, a, true); }

}  // namespace mylos::kernels::attention::cudnn
