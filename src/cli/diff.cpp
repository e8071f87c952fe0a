#include <cstdlib>
#include <iostream>

#include "base/usage.hpp"
#include "cli/commands.hpp"

namespace mylos::cli {
namespace {

// "1%" or "0.01".
double threshold_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string rest = end;
  if (end == text.c_str() || !(rest.empty() || rest == "%"))
    usage_error("--threshold is '{}'; write a part like 1% or 0.01", text);
  return rest == "%" ? value / 100 : value;
}

}  // namespace

int diff(const DiffArguments& arguments) {
  measure::DiffOptions options = arguments.options;
  options.compare.threshold = threshold_of(arguments.threshold);
  for (const std::string& pair : arguments.pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos || equals == 0 || equals + 1 == pair.size())
      usage_error("--pair is '{}'; write CASE_OF_A=CASE_OF_B", pair);
    options.pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  const measure::Diff result = measure::diff(options);
  std::cout << (arguments.json ? result.json : result.text) << '\n';
  return arguments.fail_on_slower && result.slower > 0 ? kSlower : kDone;
}

}  // namespace mylos::cli
