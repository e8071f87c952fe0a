// What steps and evaluations say of single sources, as bundle and log keep it. Runs with one source, or one validation set,
// keep nothing of this kind: the whole says the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/training_data.hpp"
#include "measure/train_record.hpp"
#include "train/evaluation.hpp"
#include "train/step.hpp"

namespace mylos::train {

struct SourceNames {
  std::vector<std::string> sources, validation_sets;
};
SourceNames source_names(const data::TrainingData& training, std::span<const data::NamedSamples> validation);

// steps: done, this one included.
std::vector<measure::SourceSample> source_samples(const StepResult& result, const data::TrainingData& data,
                                                  std::int64_t steps);
std::vector<measure::SourceSample> source_samples(const Evaluation& evaluation);

}  // namespace mylos::train
