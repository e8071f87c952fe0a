#include "train/source_samples.hpp"

namespace mylos::train {
namespace {

std::vector<measure::SourceSample> samples_of(std::span<const SourceLoss> losses) {
  std::vector<measure::SourceSample> samples;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (const SourceLoss& l = losses[i]; l.valid_tokens > 0)
      samples.push_back({.source = i, .loss = l.loss_sum / double(l.valid_tokens), .valid_tokens = l.valid_tokens});
  return samples;
}

}  // namespace

SourceNames source_names(const data::TrainingData& training, std::span<const data::NamedSamples> validation) {
  SourceNames names;
  for (std::size_t i = 0; i < training.size(); ++i) names.sources.push_back(training[i].name());
  for (const data::NamedSamples& set : validation) names.validation_sets.push_back(set.name());
  return names;
}

std::vector<measure::SourceSample> source_samples(const StepResult& result, const data::TrainingData& data,
                                                  std::int64_t steps) {
  if (data.size() < 2) return {};
  std::vector<measure::SourceSample> samples = samples_of(result.sources);
  const std::vector<data::SourceUse> use = data.use_before(steps);
  for (measure::SourceSample& s : samples) s.epochs = use[s.source].epochs;
  return samples;
}

std::vector<measure::SourceSample> source_samples(const Evaluation& evaluation) {
  if (evaluation.sets.size() < 2) return {};
  return samples_of(evaluation.sets);
}

}  // namespace mylos::train
