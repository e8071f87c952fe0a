#include <iostream>

#include "cli/commands.hpp"
#include "cli/token_format.hpp"
#include "data/inspect.hpp"

namespace mylos::cli {

int data_inspect(const DataInspectArguments& arguments) {
  data::InspectOptions options;
  options.format = token_format_of(arguments.format, arguments.dtype);
  options.tokenizer = arguments.tokenizer;
  options.first = arguments.first;
  options.show = arguments.show;
  const data::TokenFileReport report = data::inspect(arguments.file, options);
  std::cout << (arguments.json ? data::to_json(report) : data::describe(report)) << '\n';
  return report.problems.empty() ? kDone : kFailed;
}

}  // namespace mylos::cli
