#include "train/config.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "base/files.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "optimizer/schedule.hpp"
#include "tensor/runtime.hpp"

namespace mylos::train {

void bind(ConfigBinder& keys, TrainConfig& c) {
  constexpr std::int64_t kMost = std::int64_t(1) << 40;
  keys.integer("steps", c.steps, 1, kMost, "optimizer steps of the run");
  keys.integer("batch", c.batch, 1, 1 << 20, "sequences in a micro-batch");
  keys.integer("accumulation", c.accumulation, 1, 1 << 20, "micro-batches whose gradients are added up before a step");
  keys.integer("sequence", c.sequence, 1, 1 << 24, "tokens of a sequence; at most model.max_seq_len");
  keys.choice("recompute", c.recompute, {"none", "selective", "full", "auto"},
              "which activations are computed again in the backward pass instead of kept; auto: the least that fits");
  keys.integer(
      "recompute_blocks", c.recompute_blocks, 0, 1 << 20,
      "how many blocks follow train.recompute, from the first on; 0: all. The others follow the next lighter policy");
  keys.choice("storage", c.storage, {"f32", "bf16"}, "of weights and activations; sums are always fp32");
  keys.choice("gradients", c.gradients, {"f32", "bf16"}, "storage of accumulated gradients");
  keys.flag("deterministic", c.deterministic,
            "the same bits in every run; false: the fastest of attention's backward passes on a GPU");
  keys.choice("swiglu", c.swiglu, {"auto", "apart", "backward", "fused"},
              "SwiGLU in a pass over memory of its own, or in the end of the product before it (bf16 on Hopper): "
              "backward only, or both ways; "
              "auto: what is faster at these sizes");
  keys.flag("graphs", c.graphs, "on a GPU, record the work of a micro-batch once and replay it");
  keys.text("products", c.products,
            "file of tuned matrix products (mylos tune); empty: the usual file if it is there; heuristic: none");
  keys.integer("seed", c.seed, 0, INT64_MAX, "of the initial weights and of stochastic rounding (data.seed shuffles)");
  keys.integer("threads", c.threads, 0, kMostThreads,
               "CPU threads; 0: OMP_NUM_THREADS, else all cores. Equal results need equal threads");
}

void bind(ConfigBinder& keys, EvalConfig& c) {
  constexpr std::int64_t kMost = std::int64_t(1) << 40;
  keys.integer("interval", c.interval, 0, kMost,
               "steps between evaluations on data.validation; 0: only after the last step");
  keys.integer("samples", c.samples, 0, kMost,
               "sequences of an evaluation during the run, always the same ones; 0: all");
  keys.integer("final_samples", c.final_samples, 0, kMost, "sequences of the evaluation after the last step; 0: all");
}

void bind(ConfigBinder& keys, OutputConfig& c) {
  keys.text("bundle", c.bundle, "the result bundle of the run (HDF5)");
  keys.text("weights", c.weights, "the trained weights (HDF5); empty: <bundle>.weights.h5 beside the bundle");
  keys.flag("save_weights", c.save_weights, "write the weights when the run ends; false for runs that only measure");
  keys.text("log", c.log,
            "one JSON object a line for every step and evaluation; empty: <bundle>.jsonl beside the bundle");
  keys.flag("overwrite", c.overwrite, "replace files of an earlier run with the same names");
  keys.integer("log_interval", c.log_interval, 1, std::int64_t(1) << 40, "steps between lines for people");
  keys.choice("progress", c.progress, {"auto", "live", "lines", "off"},
              "how progress is shown: one line that is rewritten, or lines; auto: live on a terminal");
  keys.text("note", c.note, "free text that the bundle keeps");
}

OutputConfig resolve(OutputConfig c) {
  check(!c.bundle.empty(), "output.bundle is empty; name the file that the results go to");
  const std::filesystem::path bundle = c.bundle;
  check(bundle.has_filename(), "output.bundle is '{}', a folder; name a file", c.bundle);
  const auto beside = [&](const char* suffix) { return (bundle.parent_path() / bundle.stem()).string() + suffix; };
  if (c.weights.empty()) c.weights = beside(".weights.h5");
  if (c.log.empty()) c.log = beside(".jsonl");
  check(!is_same_file(c.weights, c.bundle) && !is_same_file(c.log, c.bundle) && !is_same_file(c.log, c.weights),
        "output.bundle ('{}'), output.weights ('{}') and output.log ('{}') must be different files", c.bundle,
        c.weights, c.log);
  return c;
}

std::vector<ConfigSection> sections(Config& c) {
  using data::bind;
  using model::bind;
  using optimizer::bind;
  return {
      {"model", "the Llama-3 decoder", [&c](ConfigBinder& k) { bind(k, c.model); }},
      {"train", "the run and how one device computes it", [&c](ConfigBinder& k) { bind(k, c.train); }},
      {"optimizer", "the update rule and gradient clipping", [&c](ConfigBinder& k) { bind(k, c.optimizer); }},
      {"schedule", "the learning rate", [&c](ConfigBinder& k) { bind(k, c.schedule); }},
      {"data", "where tokens come from", [&c](ConfigBinder& k) { bind(k, c.data); }},
      {"eval", "the loss on validation data", [&c](ConfigBinder& k) { bind(k, c.eval); }},
      {"output", "what the run writes", [&c](ConfigBinder& k) { bind(k, c.output); }},
  };
}

std::string to_toml(const Config& config) {
  Config copy = config;
  return write_config(sections(copy));
}

Config resolve(Config c) {
  c.model = model::resolve(c.model);
  c.output = resolve(c.output);
  if (c.data.packing == data::Packing::best_fit) c.data.documents = true;
  check(c.train.sequence <= c.model.max_seq_len,
        "train.sequence is {}, longer than model.max_seq_len ({}); shorten one or raise the other", c.train.sequence,
        c.model.max_seq_len);
  check(c.train.recompute != model::Recompute::none || c.train.recompute_blocks == 0,
        "train.recompute_blocks is {}, but train.recompute = \"none\" recomputes in no block; leave one of them out",
        c.train.recompute_blocks);
  check(c.train.recompute_blocks <= c.model.layers,
        "train.recompute_blocks is {} and the model has {} layers; give 0 (all) to {}", c.train.recompute_blocks,
        c.model.layers, c.model.layers);
  check(c.train.recompute != model::Recompute::automatic || c.train.recompute_blocks == 0,
        "train.recompute_blocks is {}, but train.recompute = \"auto\" chooses it; leave one of them out",
        c.train.recompute_blocks);
  if (c.train.recompute_blocks == c.model.layers) c.train.recompute_blocks = 0;
  if (c.train.swiglu == Swiglu::fused || c.train.swiglu == Swiglu::backward)
    check(kernels::fused_swiglu_takes(c.train.storage, c.model.dim, c.model.ffn),
          "train.swiglu is \"{}\", which needs train.storage = \"bf16\" (here \"{}\") and model.dim ({}) and model.ffn "
          "({}) that are multiples of 8; say \"apart\" or \"auto\"",
          c.train.swiglu == Swiglu::fused ? "fused" : "backward", name_of(c.train.storage), c.model.dim, c.model.ffn);
  c.optimizer = optimizer::resolve(c.optimizer);
  optimizer::check_storage(c.optimizer, c.train.storage, c.train.gradients);
  const optimizer::Schedule schedule(c.schedule, c.train.steps);
  c.schedule.length = schedule.length();
  c.schedule.cooldown = schedule.cooldown();
  return c;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  Config c;
  c.files = read_config(path, overrides, sections(c));
  return resolve(c);
}

Config parse_config(const std::string& toml, const std::string& name) {
  Config c;
  read_config_text(toml, name, sections(c));
  return resolve(c);
}

model::ExecutionConfig execution(const Config& c) {
  return {.batch = c.train.batch,
          .sequence = c.train.sequence,
          .recompute = c.train.recompute,
          .recompute_blocks = c.train.recompute_blocks,
          .storage = c.train.storage,
          .gradients = c.train.gradients,
          .training = true,
          .deterministic = c.train.deterministic,
          .fused_swiglu_forward = c.train.swiglu == Swiglu::fused,
          .fused_swiglu_backward = c.train.swiglu == Swiglu::fused || c.train.swiglu == Swiglu::backward,
          .documents = c.data.documents};
}

std::int64_t tokens_per_step(const Config& c) { return c.train.batch * c.train.accumulation * c.train.sequence; }

}  // namespace mylos::train
