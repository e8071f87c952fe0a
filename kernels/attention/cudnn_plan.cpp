#include "kernels/attention/cudnn_plan.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::kernels::attention::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using Node = std::shared_ptr<Attributes>;

static_assert(kTilesKnob == std::int64_t(fe::KnobType_t::KERNEL_CFG));

// Names of the tensors in a graph; execution binds addresses to them in ascending order.
enum Uid : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv, kQueries, kKeys, kOffsets };

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

// The tensors of a graph under construction.
class Builder {
 public:
  Builder(const PlanKey& key, const std::vector<std::int64_t>& rows, fe::graph::Graph& graph) : key_(key), g_(graph) {
    g_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (key.mask != Mask::documents) return;
    queries_ = integers("queries", kQueries, s().batch, fe::DataType_t::INT32);
    keys_ = integers("keys", kKeys, s().batch, fe::DataType_t::INT32);
    for (std::size_t i = 0; i < rows.size(); ++i)
      offsets_[rows[i]] = integers("offsets", Uid(kOffsets + std::int64_t(i)), s().batch + 1, fe::DataType_t::INT64);
  }

  void forward() {
    auto options = fe::graph::SDPA_attributes().set_name("mylos::attention::forward").set_generate_stats(true);
    mask(options);
    auto [out, lse] = g_.sdpa(input("q", kQ, s().heads, 0), input("k", kK, s().kv_heads, 1),
                              input("v", kV, s().kv_heads, 2), options);
    output(out, kOut, s().heads, 3);
    *lse = sums(*lse).set_output(true);
  }

  void backward() {
    const Node q = input("q", kQ, s().heads, 0), k = input("k", kK, s().kv_heads, 1),
               v = input("v", kV, s().kv_heads, 2), out = input("out", kOut, s().heads, 3),
               dout = input("dout", kDout, s().heads, 4), lse = g_.tensor(sums(Attributes().set_name("lse")));
    auto options = fe::graph::SDPA_backward_attributes().set_name("mylos::attention::backward");
    options.set_deterministic_algorithm(key_.deterministic);
    mask(options);
    if (key_.tokens > 0) options.set_max_total_seq_len_q(key_.tokens).set_max_total_seq_len_kv(key_.tokens);
    auto [dq, dk, dv] = g_.sdpa_backward(q, k, v, out, dout, lse, options);
    output(dq, kDq, s().heads, 5);
    output(dk, kDk, s().kv_heads, 6);
    output(dv, kDv, s().kv_heads, 7);
  }

 private:
  const AttentionShape& s() const { return key_.shape; }
  std::int64_t S() const { return key_.shape.sequence; }

  Node integers(const char* name, Uid uid, std::int64_t count, fe::DataType_t type) {
    return g_.tensor(Attributes()
                         .set_name(name)
                         .set_uid(uid)
                         .set_dim({count, 1, 1, 1})
                         .set_stride({1, 1, 1, 1})
                         .set_data_type(type));
  }
  Attributes placed(Attributes t, Uid uid, std::int64_t heads, const Strides& strides) const {
    t.set_uid(uid).set_dim({s().batch, heads, S(), s().head_size});
    const bool ragged = key_.mask == Mask::documents;
    t.set_stride({ragged ? S() * strides[1] : strides[0], strides[2], strides[1], 1});
    if (ragged) t.set_ragged_offset(offsets_.at(strides[1]));
    return t;
  }
  Node input(const char* name, Uid uid, std::int64_t heads, std::size_t i) {
    return g_.tensor(placed(Attributes().set_name(name), uid, heads, key_.strides[i]));
  }
  void output(const Node& t, Uid uid, std::int64_t heads, std::size_t i) const {
    *t = placed(*t, uid, heads, key_.strides[i]).set_output(true);
  }
  // lse: [B, H, S]; with documents [T, H], the only layout that ragged tensors have for it.
  Attributes sums(Attributes t) const {
    t.set_uid(kLse).set_data_type(fe::DataType_t::FLOAT).set_dim({s().batch, s().heads, S(), 1});
    if (key_.mask != Mask::documents) return t.set_stride({s().heads * S(), S(), 1, 1});
    return t.set_stride({s().heads * S(), 1, s().heads, 1}).set_ragged_offset(offsets_.at(s().heads));
  }
  template <class Options>
  void mask(Options& options) const {
    options.set_causal_mask(true).set_attn_scale(1.0f / std::sqrt(float(s().head_size)));
    if (queries_) options.set_padding_mask(true).set_seq_len_q(queries_).set_seq_len_kv(keys_);
  }

  const PlanKey& key_;
  fe::graph::Graph& g_;
  Node queries_, keys_;
  std::unordered_map<std::int64_t, Node> offsets_;  // by elements a token
};

std::vector<std::int64_t> rows_of(const PlanKey& key) {
  std::vector<std::int64_t> rows;
  if (key.mask != Mask::documents) return rows;
  rows.push_back(key.shape.heads);
  for (std::size_t i = 0; i < (key.backward ? 8u : 4u); ++i)
    if (std::find(rows.begin(), rows.end(), key.strides[i][1]) == rows.end()) rows.push_back(key.strides[i][1]);
  return rows;
}

void describe(const PlanKey& key, const std::vector<std::int64_t>& rows, fe::graph::Graph& graph) {
  Builder builder(key, rows, graph);
  key.backward ? builder.backward() : builder.forward();
  ok(graph.validate(), "validation");
  ok(graph.build_operation_graph(handle()), "building the graph");
}

}  // namespace

struct Plan::Impl {
  fe::graph::Graph graph;
};

Plan::Plan(const PlanKey& key, Candidates candidates) : key_(key), rows_(rows_of(key)), impl_(new Impl) {
  fe::graph::Graph& g = impl_->graph;
  const bool all = candidates == Candidates::all;
  describe(key, rows_, g);
  std::vector<fe::HeurMode_t> modes{fe::HeurMode_t::A};
  if (all) modes = {fe::HeurMode_t::A, fe::HeurMode_t::B, fe::HeurMode_t::FALLBACK};
  ok(g.create_execution_plans(modes), "choosing a plan");
  ok(g.check_support(), "checking for support");
  ok(g.build_plans(all ? fe::BuildPlanPolicy_t::ALL : fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), "building the plan");
}

Plan::Plan(const PlanKey& key, const Engine& engine) : key_(key), rows_(rows_of(key)), impl_(new Impl) {
  fe::graph::Graph& g = impl_->graph;
  describe(key, rows_, g);
  std::unordered_map<fe::KnobType_t, std::int64_t> knobs;
  for (const auto& [type, value] : engine.knobs) knobs[fe::KnobType_t(type)] = value;
  ok(g.create_execution_plan(engine.id, knobs), "configuring the engine");
  ok(g.check_support(), "checking for support");
  ok(g.build_plans(), "building the plan");
}

Plan::~Plan() = default;

int Plan::candidates() const { return int(impl_->graph.get_execution_plan_count()); }

bool Plan::built(int candidate) const {
  std::int64_t bytes = 0;
  return impl_->graph.get_workspace_size_plan_at_index(candidate, bytes).is_good();
}

std::int64_t Plan::workspace(int candidate) const {
  std::int64_t bytes = 0;
  ok(candidate == kChosen ? impl_->graph.get_workspace_size(bytes)
                          : impl_->graph.get_workspace_size_plan_at_index(candidate, bytes),
     "workspace query");
  return bytes;
}

std::string Plan::name(int candidate) const {
  std::string name;
  ok(candidate == kChosen ? impl_->graph.get_plan_name(name) : impl_->graph.get_plan_name_at_index(candidate, name),
     "name query");
  return name;
}

void Plan::run(const Stream& stream, const Operands& o, void* workspace, int candidate) const {
  const cudnnStatus_t s = cudnnSetStream(handle(), static_cast<cudaStream_t>(device::native_stream(stream)));
  check(s == CUDNN_STATUS_SUCCESS, "attention: cuDNN refused the stream: {}", cudnnGetErrorString(s));
  // In the order of Uid, which spares the frontend a map a call.
  std::array<void*, 20> addresses{o.q, o.k, o.v, o.out, o.lse, o.dout, o.dq, o.dk, o.dv};
  int count = key_.backward ? 9 : 5;
  const auto add = [&](void* address) { addresses[std::size_t(count++)] = address; };
  if (key_.mask == Mask::documents) add(o.lengths), add(o.lengths);
  for (std::size_t i = 0; i < rows_.size(); ++i) add(o.offsets[i]);
  ok(candidate == kChosen ? impl_->graph.execute(handle(), addresses.data(), count, workspace)
                          : impl_->graph.execute_plan_at_index(handle(), addresses.data(), count, workspace, candidate),
     "launch");
}

std::vector<std::vector<KnobRange>> Plan::engines(const PlanKey& key) {
  fe::graph::Graph g;
  describe(key, rows_of(key), g);
  std::int64_t count = 0;
  ok(g.get_engine_count(count), "engine query");
  std::vector<std::vector<KnobRange>> engines;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<fe::Knob> knobs;
    std::vector<KnobRange> ranges;
    if (g.get_knobs_for_engine(i, knobs).is_good())
      for (const fe::Knob& k : knobs) ranges.push_back({std::int64_t(k.type), k.minValue, k.maxValue, k.stride});
    engines.push_back(ranges);
  }
  return engines;
}

}  // namespace mylos::kernels::attention::cudnn
