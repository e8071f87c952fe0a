#include "plan/memory_plan.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos::plan {
namespace {

const char* name_of(model::Recompute r) {
  switch (r) {
    case model::Recompute::none:
      return "none";
    case model::Recompute::selective:
      return "selective";
    case model::Recompute::full:
      return "full";
    case model::Recompute::automatic:
      break;
  }
  return "auto";
}

std::int64_t model_bytes(const model::ModelConfig& model, const model::ExecutionConfig& execution) {
  Arena arena;
  const model::Transformer t(model, execution, arena);
  return arena.peak_bytes();
}

}  // namespace

MemoryPlan plan_memory(const model::ModelConfig& model, const model::ExecutionConfig& execution,
                       const LayOutMore& more) {
  Arena arena;
  const model::Transformer t(model, execution, arena);
  if (more) more(arena, t);
  MemoryPlan p;
  p.model = t.config();
  p.execution = execution;
  p.categories = arena.categories();
  p.total_bytes = arena.peak_bytes();
  p.parameters = t.layout().count;
  p.embedding_parameters = t.layout().embedding_count;
  p.product_parameters = model::product_parameters(p.model);
  p.flops_per_token = model::model_flops_per_token(p.model, execution.sequence);
  return p;
}

std::string to_text(const MemoryPlan& p) {
  const auto& m = p.model;
  const auto& e = p.execution;
  std::string s;
  s += fmt::format(
      "model       {} layers, width {}, {} heads of {} ({} key/value), feed-forward {}, vocabulary {}{}{}\n", m.layers,
      m.dim, m.heads, m.head_size, m.kv_heads, m.ffn, m.vocab, m.tied_head ? ", tied head" : "",
      m.qk_norm ? ", qk norm" : "");
  s +=
      fmt::format("parameters  {} ({}); in matrix products {} ({})\n", p.parameters, format_count(double(p.parameters)),
                  p.product_parameters, format_count(double(p.product_parameters)));
  s += fmt::format("execution   micro-batch {} x {} tokens, storage {}, gradients {}, recompute {}{}{}\n", e.batch,
                   e.sequence, mylos::name_of(e.storage), mylos::name_of(e.gradients), name_of(e.recompute),
                   e.recompute_blocks > 0 ? fmt::format(" in {} of {} blocks", e.recompute_blocks, m.layers) : "",
                   e.training ? "" : ", evaluation only");
  s += fmt::format("FLOPs/token causal {:.4g}, palm {:.4g}, total {:.4g}\n\n", p.flops_per_token.causal,
                   p.flops_per_token.palm, p.flops_per_token.total);
  s += fmt::format("{:<14} {:>18} {:>12} {:>7}\n", "memory", "bytes", "", "share");
  const auto row = [&](const std::string& name, std::int64_t bytes) {
    s += fmt::format("{:<14} {:>18} {:>12} {:>6.1f}%\n", name, bytes, format_bytes(bytes),
                     100.0 * double(bytes) / double(std::max<std::int64_t>(p.total_bytes, 1)));
  };
  for (const auto& [name, bytes] : p.categories) row(name, bytes);
  row("total", p.total_bytes);
  return s;
}

nlohmann::ordered_json to_json(const MemoryPlan& p) {
  const auto& m = p.model;
  const auto& e = p.execution;
  nlohmann::ordered_json j;
  j["parameters"] = {
      {"total", p.parameters}, {"embedding", p.embedding_parameters}, {"products", p.product_parameters}};
  j["model"] = {{"dim", m.dim},           {"layers", m.layers},       {"heads", m.heads},
                {"kv_heads", m.kv_heads}, {"head_size", m.head_size}, {"ffn", m.ffn},
                {"vocab", m.vocab},       {"tied_head", m.tied_head}, {"qk_norm", m.qk_norm}};
  j["execution"] = {{"batch", e.batch},
                    {"sequence", e.sequence},
                    {"recompute", name_of(e.recompute)},
                    {"recompute_blocks", e.recompute_blocks},
                    {"storage", mylos::name_of(e.storage)},
                    {"gradients", mylos::name_of(e.gradients)},
                    {"training", e.training}};
  j["memory_bytes"] = nlohmann::ordered_json::object();
  for (const auto& [name, bytes] : p.categories) j["memory_bytes"][name] = bytes;
  j["memory_bytes"]["total"] = p.total_bytes;
  j["flops_per_token"] = {
      {"causal", p.flops_per_token.causal}, {"palm", p.flops_per_token.palm}, {"total", p.flops_per_token.total}};
  return j;
}

void check_fits(const MemoryPlan& p, std::int64_t available_bytes) {
  if (p.total_bytes <= available_bytes) return;
  const std::int64_t beside_model = p.total_bytes - model_bytes(p.model, p.execution);
  std::vector<std::string> fitting;
  for (const model::Recompute r : {model::Recompute::none, model::Recompute::selective, model::Recompute::full}) {
    // The largest micro-batch that fits under this policy.
    for (std::int64_t batch = p.execution.batch; batch >= 1 && p.execution.training;
         batch = batch > 1 ? batch / 2 : 0) {
      model::ExecutionConfig e = p.execution;
      e.recompute = r;
      e.recompute_blocks = 0;
      e.batch = batch;
      const std::int64_t bytes = beside_model + model_bytes(p.model, e);
      if (bytes > available_bytes) continue;
      fitting.push_back(fmt::format("recompute {} with micro-batch {} ({})", name_of(r), batch, format_bytes(bytes)));
      break;
    }
  }
  fail("the run needs {} of device memory and {} are there; {}", format_bytes(p.total_bytes),
       format_bytes(available_bytes),
       fitting.empty() ? "no micro-batch or recomputation policy fits: use a smaller model or sequence, bf16 storage, "
                         "or more devices"
                       : "what fits: " + join(fitting, "; "));
}

}  // namespace mylos::plan
