// Which of cuDNN's engines runs dense causal attention fastest under load: all that its heuristics name, then each engine
// with one knob at a time at another value. Llama-3 8B's shape, B 4, S 4096, windows of a fused projection.
//
//   bench_kernels_attention_plans [SECONDS]     of load for each finalist, 2 by default
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "benchmarks/harness/timer.hpp"
#include "benchmarks/kernels/operands.hpp"
#include "benchmarks/kernels/trial.hpp"
#include "kernels/attention/cudnn_plan.hpp"
#include "measure/statistics.hpp"

namespace mylos {
namespace {

using kernels::attention::cudnn::Engine;
using kernels::attention::cudnn::KnobRange;
using kernels::attention::cudnn::Operands;
using kernels::attention::cudnn::Plan;
using kernels::attention::cudnn::PlanKey;
using kernels::attention::cudnn::Strides;

constexpr kernels::AttentionShape kShape{4, 4096, 32, 8, 128};
constexpr std::int64_t kMostWorkspace = std::int64_t(16) << 30;

struct Candidate {
  std::string name;
  std::shared_ptr<Plan> plan;
  int index = Plan::kChosen;
  std::vector<double> times = {};

  double median() const { return measure::median(times); }
};

struct Bench {
  Stream stream;
  bench::Owned qkv, dqkv, out, dout, lse, workspace;
  Operands operands;

  Bench()
      : qkv(bench::normal(stream, DType::bf16, {4, 4096, 48, 128}, 1, 1)),
        dqkv(bench::empty(DType::bf16, {4, 4096, 48, 128})),
        out(bench::empty(DType::bf16, {4, 4096, 32, 128})),
        dout(bench::normal(stream, DType::bf16, {4, 4096, 32, 128}, 1, 2)),
        lse(bench::empty(DType::f32, {4, 32, 4096})) {
    const auto part = [](const bench::Owned& t, std::int64_t head) { return t.tensor.slice(2, head, head + 1).data(); };
    operands.q = part(qkv, 0), operands.k = part(qkv, 32), operands.v = part(qkv, 40);
    operands.dq = part(dqkv, 0), operands.dk = part(dqkv, 32), operands.dv = part(dqkv, 40);
    operands.out = out.tensor.data(), operands.dout = dout.tensor.data(), operands.lse = lse.tensor.data();
  }
  void ready(const Plan& plan, int index) {
    if (plan.workspace(index) > workspace.buffer.bytes()) workspace = bench::empty(DType::u8, {plan.workspace(index)});
  }
  // Of a call, as the harness times what is queued.
  double seconds(const Candidate& c, int calls) {
    bench::Timer timer(stream, {[&] { c.plan->run(stream, operands, workspace.tensor.data(), c.index); }},
                       bench::Runs::queued);
    return timer.seconds(calls) / calls;
  }
};

PlanKey key_of(bool backward, bool deterministic) {
  const Strides fused{4096 * 6144, 6144, 128}, dense{4096 * 4096, 4096, 128};
  PlanKey k{.shape = kShape, .backward = backward, .deterministic = deterministic};
  k.strides = {fused, fused, fused, dense};
  if (backward) k.strides = {fused, fused, fused, dense, dense, fused, fused, fused};
  return k;
}

// The norm of what the plan wrote, to be held against the first one's.
double written(Bench& b, bool backward) {
  const bench::Owned& t = backward ? b.dqkv : b.out;
  std::vector<bf16> values(std::size_t(t.tensor.size()));
  download(b.stream, t.tensor, values.data(), t.tensor.bytes());
  double norm = 0;
  for (std::size_t i = 0; i < values.size(); i += 7) norm += std::abs(double(float(values[i])));
  return norm;
}

void tune(Bench& b, const char* name, const PlanKey& key, double load) {
  std::vector<Candidate> all;
  const auto add = [&](const std::string& label, const std::shared_ptr<Plan>& plan, int index) {
    try {
      if (!plan->built(index) || plan->workspace(index) > kMostWorkspace) return;
      b.ready(*plan, index);
      Candidate c{label + " " + plan->name(index), plan, index};
      b.seconds(c, 1);
      c.times.push_back(b.seconds(c, 5));
      fmt::print("  {:50} {:8.1f} us, {:8.1f} MiB, sum {:.6e}\n", c.name, c.times[0] * 1e6,
                 double(plan->workspace(index)) / 1048576, written(b, key.backward));
      all.push_back(c);
    } catch (const Error&) {
    }
    std::fflush(stdout);
  };
  fmt::print("\n{}\n", name);
  add("chosen", std::make_shared<Plan>(key), Plan::kChosen);
  try {
    const auto ranked = std::make_shared<Plan>(key, Plan::Candidates::all);
    for (int i = 0; i < ranked->candidates(); ++i) add(fmt::format("ranked {}", i), ranked, i);
  } catch (const Error& e) {
    fmt::print("  all ranked: {}\n", e.what());
  }
  const std::vector<std::vector<KnobRange>> engines = Plan::engines(key);
  for (std::size_t e = 0; e < engines.size(); ++e) {
    const auto attempt = [&](const Engine& engine, const std::string& label) {
      try {
        add(label, std::make_shared<Plan>(key, engine), Plan::kChosen);
      } catch (const Error&) {  // most engines and values do not support the graph
      }
    };
    std::string ranges;
    for (const KnobRange& k : engines[e]) ranges += fmt::format(" {}: {}..{}/{}", k.type, k.lowest, k.highest, k.step);
    fmt::print("  engine {}: knobs{}\n", e, ranges);
    attempt({std::int64_t(e), {}}, fmt::format("engine {}", e));
    for (const KnobRange& k : engines[e])
      for (std::int64_t v = k.lowest; v <= k.highest && v < k.lowest + 8 * std::max<std::int64_t>(k.step, 1);
           v += std::max<std::int64_t>(k.step, 1))
        attempt({std::int64_t(e), {{k.type, v}}}, fmt::format("engine {} knob {}={}", e, k.type, v));
  }

  // Finalists, interleaved under load.
  std::stable_sort(all.begin() + 1, all.end(),
                   [](const Candidate& x, const Candidate& y) { return x.times[0] < y.times[0]; });
  if (all.size() > 5) all.resize(5);
  constexpr int kRounds = 8;
  for (Candidate& c : all) b.seconds(c, std::max(1, int(1.0 / double(all.size()) / c.times[0])));
  for (Candidate& c : all) c.times.clear();
  for (int round = 0; round < kRounds; ++round)
    for (Candidate& c : all) {
      const double once = b.seconds(c, 3);
      c.times.push_back(b.seconds(c, std::max(1, int(load / kRounds / once))));
    }
  const double flops = 2.0 * 4 * 32 * 4096.0 * 4096.0 * 128 * (key.backward ? 2.5 : 1);
  const double first = all[0].median();
  for (Candidate& c : all)
    fmt::print("{:14} {:50} {:8.1f} us {:6.1f} TFLOP/s {:6.3f} x {:8.1f} MiB\n", name, c.name, c.median() * 1e6,
               flops / c.median() * 1e-12, first / c.median(), double(c.plan->workspace(c.index)) / 1048576);
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  const Runtime runtime;
  const double load = argc > 1 ? std::atof(argv[1]) : 2;
  fmt::print("{}, B {} S {} heads {}/{} of {}\n", device_info().name, kShape.batch, kShape.sequence, kShape.heads,
             kShape.kv_heads, kShape.head_size);
  Bench b;
  tune(b, "forward", key_of(false, true), load);
  tune(b, "any order", key_of(true, false), load);
  tune(b, "deterministic", key_of(true, true), load);
  return 0;
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) {
  return mylos::bench::run_trial("bench_kernels_attention_plans", mylos::main_of, argc, argv);
}
