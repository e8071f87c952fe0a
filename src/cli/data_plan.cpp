#include <fmt/format.h>

#include <iostream>
#include <vector>

#include "cli/commands.hpp"
#include "data/training_data.hpp"
#include "train/config.hpp"

namespace mylos::cli {

int data_plan(const ConfigArguments& arguments) {
  const train::Config c = train::load_config(arguments.path, arguments.overrides);
  const std::int64_t samples = c.train.batch * c.train.accumulation;
  const data::TrainingData data(c.data, c.model.vocab, c.train.sequence, samples);
  std::cout << data::describe(data, c.train.steps);
  std::cout << fmt::format("{} samples of {} tokens a step, {} as {} on the host\n", samples, c.train.sequence,
                           c.data.packing == data::Packing::best_fit ? "packed" : "cut", name_of(data.dtype()));
  const std::vector<data::NamedSamples> validation = data::validation_data(c.data, c.model.vocab, c.train.sequence);
  data::check_tokenizers(c.data, data, validation);
  for (const data::NamedSamples& v : validation)
    std::cout << fmt::format("validation {}  {} tokens, {} samples, {:.2f} % filled\n", v.name(), v.tokens().size(),
                             v.samples().count(), 100 * v.samples().fill());
  return kDone;
}

}  // namespace mylos::cli
