#include <iostream>

#include "base/usage.hpp"
#include "cli/commands.hpp"
#include "cli/token_format.hpp"
#include "data/token_source.hpp"
#include "data/validate.hpp"
#include "train/config.hpp"

namespace mylos::cli {

int data_validate(const DataValidateArguments& arguments) {
  data::ValidateOptions options;
  options.threads = arguments.threads;
  options.sha256 = !arguments.no_sha256;
  options.vocab = arguments.vocab;
  struct Wanted {
    std::string pattern;
    data::TokenFormat format;
  };
  std::vector<Wanted> wanted;
  if (!arguments.config.empty()) {
    const train::Config config = train::load_config(arguments.config, {});
    if (!options.vocab) options.vocab = config.model.vocab;
    options.format = data::declared_format(config.data);
    std::vector<std::pair<std::string, data::SourceConfig>> sources;
    if (arguments.files.empty() && data::has_training_data(config.data)) sources = data::training_sources(config.data);
    if (arguments.files.empty())
      for (const auto& source : data::validation_sources(config.data)) sources.push_back(source);
    for (const auto& [name, source] : sources)
      for (const std::string& pattern : source.files) wanted.push_back({pattern, data::declared_format(source)});
  }
  for (const std::string& pattern : arguments.files) wanted.push_back({pattern, options.format});
  if (wanted.empty()) usage_error("no token files: name some, or a --config whose data.train or data.sources does");
  const data::TokenFormat stated = token_format_of(arguments.format, arguments.dtype);
  for (Wanted& w : wanted) {
    if (stated.dtype) w.format.dtype = stated.dtype;
    if (stated.container) w.format.container = stated.container;
  }

  bool sound = true;
  const auto failed = [&](const std::string& name, const Error& e) {
    sound = false;
    std::cout << name << ": FAILED: " << e.what() << std::endl;
  };
  for (const auto& [pattern, format] : wanted) {
    options.format = format;
    std::vector<std::string> files;
    try {
      files = data::expand_files({pattern});
    } catch (const Error& e) {
      failed(pattern, e);
    }
    for (const std::string& file : files) {
      try {
        const data::Validation v = data::validate(file, options);
        sound = sound && v.problems.empty();
        std::cout << data::describe(v) << std::endl;
      } catch (const Error& e) {
        failed(file, e);
      }
    }
  }
  return sound ? kDone : kFailed;
}

}  // namespace mylos::cli
