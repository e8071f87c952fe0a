// The whole configuration of a run: one section a layer, and what holds between them.
//
//   Config c = load_config("configs/quickstart.toml", {"train.steps=100"});
//   c.model                                    // resolved, and known to fit the other sections
//   write_config(sections(c));                 // what goes into the bundle
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "data/config.hpp"
#include "model/config.hpp"
#include "optimizer/config.hpp"

namespace mylos::train {

// SwiGLU in a pass over memory of its own (apart), or in the end of the product before it: backward, or both ways (fused). automatic stands for one of the others
// until with_swiglu() has chosen.
enum class Swiglu { automatic, apart, backward, fused };

struct TrainConfig {
  std::int64_t steps = 1000;
  std::int64_t batch = 8;         // B sequences of a micro-batch
  std::int64_t accumulation = 1;  // micro-batches of a step
  std::int64_t sequence = 512;    // S tokens of a sequence
  model::Recompute recompute = model::Recompute::none;
  std::int64_t recompute_blocks = 0;  // the first so many blocks, 0: all; the others follow the next lighter policy
  DType storage = DType::f32;
  DType gradients = DType::f32;
  bool deterministic = true;  // the same bits in every run; false: cuDNN's faster attention backward
  Swiglu swiglu = Swiglu::automatic;
  bool graphs = true;        // GPU: record a micro-batch once, then replay it
  std::string products;      // file of tuned matrix products; empty: the usual one if it is there; or "heuristic"
  std::int64_t seed = 1;     // of the initial weights and stochastic rounding; data.seed shuffles
  std::int64_t threads = 0;  // CPU threads; 0: OMP_NUM_THREADS, else all cores
};
void bind(ConfigBinder& keys, TrainConfig& config);

struct EvalConfig {
  std::int64_t interval = 100;     // steps; 0: only after the last step
  std::int64_t samples = 64;       // sequences of a periodic evaluation, always the same ones; 0: all
  std::int64_t final_samples = 0;  // sequences of the evaluation after the last step; 0: all
};
void bind(ConfigBinder& keys, EvalConfig& config);

enum class Progress { automatic, live, lines, off };

struct OutputConfig {
  std::string bundle = "results/train.h5";
  std::string weights;  // empty: beside the bundle, <name>.weights.h5
  bool save_weights = true;
  std::string log;  // empty: beside the bundle, <name>.jsonl
  bool overwrite = false;
  std::int64_t log_interval = 10;
  Progress progress = Progress::automatic;
  std::string note;
};
void bind(ConfigBinder& keys, OutputConfig& config);
// Fills in the empty paths.
OutputConfig resolve(OutputConfig config);

struct Config {
  model::ModelConfig model;
  TrainConfig train;
  optimizer::OptimizerConfig optimizer;
  optimizer::ScheduleConfig schedule;
  data::DataConfig data;
  EvalConfig eval;
  OutputConfig output;
  std::vector<std::string> files;  // that it was read from; no key
};

// The sections refer to `config`, which must outlive them.
std::vector<ConfigSection> sections(Config& config);
// The same, to write a resolved configuration: the caller does not change it.
std::string to_toml(const Config& config);

// Reads, resolves and checks across sections. path may be empty.
Config load_config(const std::string& path, const std::vector<std::string>& overrides);
// From text, as kept in bundles and weight files; `name` is for messages.
Config parse_config(const std::string& toml, const std::string& name);
Config resolve(Config config);

model::ExecutionConfig execution(const Config& config);
std::int64_t tokens_per_step(const Config& config);

}  // namespace mylos::train
