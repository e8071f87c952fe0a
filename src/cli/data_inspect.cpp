#include <iostream>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "data/inspect.hpp"

namespace mylos::cli {

int data_inspect(const DataInspectArguments& arguments) {
  data::InspectOptions options;
  options.tokenizer = arguments.tokenizer;
  options.first = arguments.first;
  options.show = arguments.show;
  if (!arguments.dtype.empty()) {
    const DType dtype = dtype_of(arguments.dtype);
    check(dtype == DType::u16 || dtype == DType::u32, "tokens are u16 or u32, not {}", arguments.dtype);
    options.dtype = dtype;
  }
  const data::TokenFileReport report = data::inspect(arguments.file, options);
  std::cout << (arguments.json ? data::to_json(report) : data::describe(report)) << '\n';
  return report.problems.empty() ? kDone : kFailed;
}

}  // namespace mylos::cli
