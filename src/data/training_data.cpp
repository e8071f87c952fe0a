#include "data/training_data.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/common_tokenizer.hpp"
#include "tensor/philox.hpp"

namespace mylos::data {
namespace {

// data.seed for data.train, so that its order needs no name.
std::uint64_t seed_of(const DataConfig& config, const std::string& name) {
  if (config.sources.empty()) return std::uint64_t(config.seed);
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, Fowler, Noll and Vo
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  const PhiloxBlock b = philox(std::uint64_t(config.seed), Purpose::shuffle, 0xffffffffu, hash);
  return std::uint64_t(b.v[1]) << 32 | b.v[0];
}

std::vector<NamedSamples> opened(const DataConfig& config,
                                 const std::vector<std::pair<std::string, SourceConfig>>& sources, std::int64_t vocab,
                                 std::int64_t sequence, bool shuffle) {
  std::vector<NamedSamples> all;
  all.reserve(sources.size());
  for (const auto& [name, source] : sources) {
    try {
      all.emplace_back(name, config, source, vocab, sequence, shuffle);
    } catch (const Error& e) {
      if (config.sources.empty()) throw;
      fail("source {}: {}", name, e.what());
    }
  }
  return all;
}

Mixture mixture_of(const DataConfig& config, const std::vector<NamedSamples>& opened_sources,
                   std::int64_t samples_per_step) {
  const auto sources = training_sources(config);
  const auto tempered = [&](double w) { return w == 0 ? 0.0 : std::pow(w, 1 / config.temperature); };
  std::vector<double> own;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const double stated = sources[i].second.weight;
    own.push_back(tempered(stated == -1 ? double(opened_sources[i].samples().count()) : stated));
  }
  std::vector<MixturePhase> phases{{0, own}};
  for (const PhaseConfig& phase : config.phases) {
    std::vector<double> weights = own;
    if (!phase.weights.empty()) {
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const auto named = std::find_if(phase.weights.begin(), phase.weights.end(),
                                        [&](const auto& w) { return w.first == sources[i].first; });
        weights[i] = named == phase.weights.end() ? 0.0 : tempered(named->second);
      }
    }
    phases.push_back({phase.start_step * samples_per_step, weights});
  }
  return Mixture(phases);
}

std::vector<const TokenSource*> tokens_of(const std::vector<NamedSamples>& sources) {
  std::vector<const TokenSource*> tokens;
  for (const NamedSamples& s : sources) tokens.push_back(&s.tokens());
  return tokens;
}

}  // namespace

NamedSamples::NamedSamples(std::string name, const DataConfig& config, const SourceConfig& source, std::int64_t vocab,
                           std::int64_t sequence, bool shuffle)
    : name_(std::move(name)), tokens_(std::make_unique<TokenSource>(source.files, declared_format(source), vocab)) {
  DataConfig own = config;
  own.document_token = source.document_token;
  SampleOptions options = sample_options(own, *tokens_, sequence, shuffle);
  options.seed = seed_of(config, name_);
  samples_ = std::make_unique<SampleSet>(*tokens_, options);
}

TrainingData::TrainingData(const DataConfig& config, std::int64_t vocab, std::int64_t sequence,
                           std::int64_t samples_per_step)
    : sources_(opened(config, training_sources(config), vocab, sequence, config.shuffle)),
      sequence_(sequence),
      samples_per_step_(samples_per_step),
      starts_{0},
      factors_{1.0},
      mixture_(mixture_of(config, sources_, samples_per_step)) {
  check(samples_per_step >= 1, "steps of {} samples; they have at least 1", samples_per_step);
  std::error_code error;
  check(config.tokenizer.empty() || config.tokenizer == "byte" ||
            std::filesystem::is_regular_file(config.tokenizer, error),
        "data.tokenizer '{}' is no file: give the path of a tokenizer.json or .model, \"byte\", or leave it out for "
        "the one "
        "that the sidecars name",
        config.tokenizer);
  for (const PhaseConfig& phase : config.phases) {
    starts_.push_back(phase.start_step);
    factors_.push_back(phase.learning_rate);
  }
  for (const NamedSamples& s : sources_)
    if (s.tokens().dtype() == DType::u32) dtype_ = DType::u32;
  tokenizer_ = config.tokenizer.empty() ? common_tokenizer(tokens_of(sources_)) : config.tokenizer;
}

std::int64_t TrainingData::tokens() const {
  std::int64_t sum = 0;
  for (const NamedSamples& s : sources_) sum += s.tokens().size();
  return sum;
}

std::int64_t TrainingData::samples() const {
  std::int64_t sum = 0;
  for (const NamedSamples& s : sources_) sum += s.samples().count();
  return sum;
}

double TrainingData::fill() const {
  double sum = 0;
  for (const NamedSamples& s : sources_) sum += double(s.samples().tokens());
  return sum / (double(samples()) * double(sequence_));
}

const std::string& TrainingData::tokenizer() const { return tokenizer_; }

std::size_t TrainingData::phase_at(std::int64_t step) const {
  check(step >= 0, "step {} of a run", step);
  return std::size_t(std::upper_bound(starts_.begin(), starts_.end(), step) - starts_.begin()) - 1;
}

std::vector<SourceUse> TrainingData::use_before(std::int64_t step) const {
  const std::vector<std::int64_t> counts = mixture_.before(step * samples_per_step_);
  std::vector<SourceUse> use;
  for (std::size_t i = 0; i < counts.size(); ++i)
    use.push_back({counts[i], double(counts[i]) / double(sources_[i].samples().count())});
  return use;
}

TrainingData::Position TrainingData::at(std::int64_t place) const {
  const Schedule::Turn turn = mixture_.at(place);
  return {turn.source, sources_[std::size_t(turn.source)].samples().sample_at(turn.index)};
}

void TrainingData::at(std::int64_t place, std::span<std::int32_t> sources, std::span<std::int64_t> samples) const {
  if (sources_.size() == 1) {
    std::fill(sources.begin(), sources.end(), 0);
    return sources_.front().samples().samples_at(place, samples);
  }
  // The samples that a source gives to neighbouring places have numbers that follow each other: they are looked up together.
  constexpr std::size_t kMost = 64;
  for (; !samples.empty(); sources = sources.subspan(std::min(kMost, sources.size())),
                           samples = samples.subspan(std::min(kMost, samples.size()))) {
    const std::size_t n = std::min(kMost, samples.size());
    for (std::size_t i = 0; i < n; ++i) {
      const Schedule::Turn turn = mixture_.at(place++);
      sources[i] = std::int32_t(turn.source);
      samples[i] = turn.index;
    }
    std::array<std::int64_t, kMost> of_one;
    std::array<std::size_t, kMost> mine;
    for (std::uint64_t left = ~std::uint64_t(0) >> (kMost - n); left != 0;) {
      const auto first = std::size_t(std::countr_zero(left));
      std::size_t count = 0;
      for (std::size_t i = first; i < n; ++i)
        if (sources[i] == sources[first]) mine[count++] = i;
      sources_[std::size_t(sources[first])].samples().samples_at(samples[first], std::span(of_one).first(count));
      for (std::size_t k = 0; k < count; ++k) {
        samples[mine[k]] = of_one[k];
        left &= ~(std::uint64_t(1) << mine[k]);
      }
    }
  }
}

void make_batch(const TrainingData& data, const BatchLayout& layout, std::int64_t step, std::int64_t micro_batch,
                HostBatch& out) {
  check_layout(layout);
  check(layout.samples_per_step() == data.samples_per_step(), "a layout of {} samples a step for data of {}",
        layout.samples_per_step(), data.samples_per_step());
  check(step >= 0 && micro_batch >= 0 && micro_batch < layout.micro_batches, "micro-batch {} of {} in step {}",
        micro_batch, layout.micro_batches, step);
  out.prepare_unwritten(layout.batch, data.sequence(), data.dtype());
  out.step = step;
  out.micro_batch = micro_batch;
  std::vector<TokenReader> readers;
  readers.reserve(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) readers.emplace_back(data[i].tokens(), out.dtype);

  // Memory fetches the rows ahead while one is copied and while the places of further ones are computed.
  constexpr std::int64_t kAheadBytes = 6144, kTogether = 16;
  const std::int64_t B = layout.batch, row_bytes = (data.sequence() + 1) * size_of(out.dtype),
                     ahead = std::clamp<std::int64_t>(kAheadBytes / row_bytes, 1, kTogether);
  const auto of_row = [&](std::int64_t row) -> std::pair<const SampleSet&, TokenReader&> {
    const auto source = std::size_t(out.sources[std::size_t(row)]);
    return {data[source].samples(), readers[source]};
  };
  std::int64_t placed = 0, fetched = 0;
  for (std::int64_t row = 0; row < B; ++row) {
    for (; fetched < std::min(B, row + ahead + 1); ++fetched) {
      if (fetched == placed) {
        const auto n = std::size_t(std::min(kTogether, B - placed));
        data.at(place_of(layout, step, micro_batch, placed), std::span(out.sources).subspan(std::size_t(placed), n),
                std::span(out.samples).subspan(std::size_t(placed), n));
        for (const std::int64_t end = placed + std::int64_t(n); placed < end; ++placed) {
          const auto [samples, reader] = of_row(placed);
          samples.prefetch_pages(out.samples[std::size_t(placed)], reader);
        }
      }
      const auto [samples, reader] = of_row(fetched);
      samples.prefetch(out.samples[std::size_t(fetched)], reader);
    }
    const auto [samples, reader] = of_row(row);
    samples.fill(out, row, out.samples[std::size_t(row)], reader);
  }
}

std::vector<NamedSamples> validation_data(const DataConfig& config, std::int64_t vocab, std::int64_t sequence) {
  return opened(config, validation_sources(config), vocab, sequence, false);
}

void check_tokenizers(const DataConfig& config, const TrainingData& train,
                      const std::vector<NamedSamples>& validation) {
  if (!config.tokenizer.empty()) return;
  std::vector<const TokenSource*> all = tokens_of(validation);
  for (std::size_t i = 0; i < train.size(); ++i) all.push_back(&train[i].tokens());
  common_tokenizer(all);
}

std::string describe(const TrainingData& data, std::int64_t steps) {
  std::string text;
  std::size_t width = 0;
  for (std::size_t i = 0; i < data.size(); ++i) width = std::max(width, data[i].name().size());
  const std::vector<SourceUse> use = data.use_before(steps);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const SampleSet& s = data[i].samples();
    text += fmt::format("{:<{}}  {} tokens, {} samples an epoch", data[i].name(), width, data[i].tokens().size(),
                        s.count());
    if (const PackedRows* packed = s.packed()) {
      const PackingCounts& c = packed->counts();
      text += fmt::format(", {:.2f} % filled with {} documents", 100 * s.fill(), c.documents);
      if (c.cut > 0) text += fmt::format(", {} of them cut", c.cut);
      if (c.left_out > 0) text += fmt::format(", {} tokens that stand alone left out", c.left_out);
    }
    if (data.size() > 1) text += fmt::format(", weight {:.4f}", data.weight(0, i));
    if (steps > 0) text += fmt::format(", {:.3g} epochs in {} steps", use[i].epochs, steps);
    text += '\n';
  }
  for (std::size_t p = 1; p < data.phases(); ++p) {
    std::vector<std::string> weights;
    for (std::size_t i = 0; i < data.size(); ++i)
      if (data.size() > 1 && data.weight(p, i) > 0)
        weights.push_back(fmt::format("{} {:.4f}", data[i].name(), data.weight(p, i)));
    text += fmt::format("from step {}  learning rate x {:g}{}{}\n", data.start_step(p),
                        data.learning_rate_factor(data.start_step(p)), weights.empty() ? "" : ", weights ",
                        join(weights, ", "));
  }
  return text;
}

}  // namespace mylos::data
