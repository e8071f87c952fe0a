#include "data/config.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace mylos::data {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
const std::vector<const char*> kFormats = {"recorded", "raw", "npy", "llmc", "megatron"};
const std::vector<const char*> kDTypes = {"sidecar", "u16", "u32"};

void check_phases(const DataConfig& c) {
  std::vector<std::string> names;
  for (const auto& [name, source] : c.sources) names.push_back(name);
  std::int64_t before = 0;
  for (std::size_t p = 0; p < c.phases.size(); ++p) {
    const PhaseConfig& phase = c.phases[p];
    check(phase.start_step > before, "data.phases[{}].start_step is {}; it must be above {}", p, phase.start_step,
          p == 0 ? "0, from where on the weights of the sources hold"
                 : fmt::format("{}, where the phase before begins", before));
    before = phase.start_step;
    double sum = 0;
    for (const auto& [name, weight] : phase.weights) {
      sum += weight;
      const bool known = std::find(names.begin(), names.end(), name) != names.end();
      const std::string near = known ? "" : nearest_name(name, names);
      check(known, "data.phases[{}].weights.{}: there is no [data.sources.{}]{}", p, name, name,
            near.empty() ? "" : "; did you mean " + near + "?");
    }
    check(phase.weights.empty() || sum > 0, "data.phases[{}].weights are all 0; one must be above", p);
  }
}

}  // namespace

void bind(ConfigBinder& keys, SourceConfig& c) {
  keys.texts("files", c.files, "training token files of the source: paths and globs, sorted by name");
  keys.texts("validation", c.validation, "its validation token files; empty: it is not evaluated");
  keys.real(
      "weight", c.weight, -1, kUnbounded,
      "its part of the samples, by the sum of all weights; -1, then for all sources: by their numbers of samples");
  keys.choice("format", c.format, kFormats, "as data.format, for this source; recorded: what data.format says");
  keys.choice("dtype", c.dtype, kDTypes, "as data.dtype, for this source; sidecar: what data.dtype says");
  keys.integer("document_token", c.document_token, -1, kMostTokens,
               "as data.document_token, for this source; -1: what data.document_token says");
}

void bind(ConfigBinder& keys, PhaseConfig& c) {
  keys.integer("start_step", c.start_step, 0, std::int64_t(1) << 40, "its first step, above that of the phase before");
  keys.reals("weights", c.weights, 0, kUnbounded,
             "weight of each source, not named: 0; empty: the weights of the sources themselves");
  keys.real("learning_rate", c.learning_rate, 0, 1e6, "factor on the learning rate of the schedule");
}

void bind(ConfigBinder& keys, DataConfig& c) {
  keys.texts("train", c.train, "training token files: paths and globs, sorted by name; several sources: data.sources");
  keys.texts("validation", c.validation, "validation token files; empty: no evaluation");
  keys.named("sources", c.sources, "sources that are mixed, instead of data.train");
  keys.real("temperature", c.temperature, 0.01, 1000, "weights of sources become w^(1 / temperature)");
  keys.list("phases", c.phases, "other weights or another learning rate from a step on");
  keys.choice("format", c.format, kFormats,
              "container of the token files: as recorded (sidecar, .npy, an .idx beside; else raw), or this one");
  keys.choice("dtype", c.dtype, kDTypes, "elements of raw files: as <file>.json says, or u16, or u32");
  keys.text("tokenizer", c.tokenizer,
            "\"byte\" or the path of a tokenizer.json or SentencePiece .model; empty: the one named by the training "
            "sidecars");
  keys.choice("packing", c.packing, {"concat", "best_fit"},
              "samples are the text cut every train.sequence tokens, or whole documents fitted together and padded");
  keys.flag("documents", c.documents, "attention, positions and loss stop at document boundaries; best_fit implies it");
  keys.integer("document_token", c.document_token, -1, kMostTokens,
               "the token that ends a document; -1: an index of the file's own, else end_of_text of the sidecars");
  keys.flag("shuffle", c.shuffle, "read training samples in a random order, another one each epoch");
  keys.integer("seed", c.seed, 0, std::numeric_limits<std::int64_t>::max(), "seed of the order of samples");
  keys.integer("prefetch", c.prefetch, 0, 1024, "batches made ahead by the loader; 0: made when asked for");
  keys.integer("loader_threads", c.loader_threads, 1, 64, "threads of the loader; at most prefetch of them have work");
}

namespace {

TokenFormat declared(StatedFormat format, StatedDType dtype) {
  TokenFormat declared;
  if (dtype != StatedDType::sidecar) declared.dtype = dtype == StatedDType::u16 ? DType::u16 : DType::u32;
  switch (format) {
    case StatedFormat::recorded:
      break;
    case StatedFormat::raw:
      declared.container = Container::raw;
      break;
    case StatedFormat::npy:
      declared.container = Container::npy;
      break;
    case StatedFormat::llmc:
      declared.container = Container::llmc;
      break;
    case StatedFormat::megatron:
      declared.container = Container::megatron;
      break;
  }
  return declared;
}

// What a source leaves open is said for all of them.
void inherit(const DataConfig& c, SourceConfig& source) {
  if (source.format == StatedFormat::recorded) source.format = c.format;
  if (source.dtype == StatedDType::sidecar) source.dtype = c.dtype;
  if (source.document_token < 0) source.document_token = c.document_token;
}

}  // namespace

TokenFormat declared_format(const DataConfig& config) { return declared(config.format, config.dtype); }
TokenFormat declared_format(const SourceConfig& source) { return declared(source.format, source.dtype); }

bool has_training_data(const DataConfig& c) { return !c.train.empty() || !c.sources.empty(); }

std::vector<std::pair<std::string, SourceConfig>> training_sources(const DataConfig& c) {
  check(has_training_data(c), "no token files are named; set data.train to paths or globs of token files");
  check(c.train.empty() || c.sources.empty(),
        "data.train and data.sources are both given; write the files of data.train as a source, say [data.sources.{}]",
        c.sources.empty()                   ? ""
        : c.sources.front().first == "main" ? "rest"
                                            : "main");
  check_phases(c);
  std::vector<std::pair<std::string, SourceConfig>> all = c.sources;
  if (all.empty()) all.emplace_back("train", SourceConfig{.files = c.train});
  const bool stated = all.front().second.weight != -1;
  for (auto& [name, source] : all) {
    check(!source.files.empty(), "data.sources.{}.files is empty; name its token files", name);
    check(source.weight == -1 || source.weight >= 0, "data.sources.{}.weight is {}; it must be at least 0, or -1", name,
          source.weight);
    check((source.weight != -1) == stated,
          "data.sources.{}.weight is {}, but data.sources.{} has {}: give weights to all sources or to none", name,
          source.weight == -1 ? "not given" : "given", all.front().first, stated ? "one" : "none");
    inherit(c, source);
  }
  check(!stated || std::any_of(all.begin(), all.end(), [](const auto& s) { return s.second.weight > 0; }),
        "the weights of all data.sources are 0; one must be above");
  return all;
}

std::vector<std::pair<std::string, SourceConfig>> validation_sources(const DataConfig& c) {
  std::vector<std::pair<std::string, SourceConfig>> all;
  for (const auto& [name, source] : c.sources) {
    if (source.validation.empty()) continue;
    check(c.validation.empty(),
          "data.validation and data.sources.{}.validation are both given; keep data.validation, or one of each source",
          name);
    all.emplace_back(name, source);
  }
  if (!c.validation.empty()) all.emplace_back("validation", SourceConfig{.validation = c.validation});
  for (auto& [name, source] : all) {
    source.files = source.validation;
    inherit(c, source);
  }
  return all;
}

std::vector<std::string> patterns_of(const DataConfig& c) {
  std::vector<std::string> all = c.train;
  const auto add = [&](const std::vector<std::string>& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(c.validation);
  for (const auto& [name, source] : c.sources) {
    add(source.files);
    add(source.validation);
  }
  return all;
}

}  // namespace mylos::data
