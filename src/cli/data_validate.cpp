#include <iostream>

#include "base/error.hpp"
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
  std::vector<std::string> patterns = arguments.files;
  if (!arguments.config.empty()) {
    const train::Config config = train::load_config(arguments.config, {});
    if (!options.vocab) options.vocab = config.model.vocab;
    options.format = data::declared_format(config.data);
    if (patterns.empty())
      for (const auto* of : {&config.data.train, &config.data.validation})
        patterns.insert(patterns.end(), of->begin(), of->end());
  }
  check(!patterns.empty(), "no token files: name some, or a --config whose data.train does");
  const data::TokenFormat stated = token_format_of(arguments.format, arguments.dtype);
  if (stated.dtype) options.format.dtype = stated.dtype;
  if (stated.container) options.format.container = stated.container;

  bool sound = true;
  const auto failed = [&](const std::string& name, const Error& e) {
    sound = false;
    std::cout << name << ": FAILED: " << e.what() << std::endl;
  };
  for (const std::string& pattern : patterns) {
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
