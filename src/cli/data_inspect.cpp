#include <filesystem>
#include <iostream>

#include "base/usage.hpp"
#include "cli/commands.hpp"
#include "cli/token_format.hpp"
#include "data/corpus_inspect.hpp"
#include "data/inspect.hpp"

namespace mylos::cli {
namespace {

int inspect_folder(const DataInspectArguments& arguments) {
  const DataInspectArguments unset;
  const bool of_a_file = !arguments.format.empty() || !arguments.dtype.empty() || !arguments.tokenizer.empty() ||
                         arguments.first != unset.first || arguments.show != unset.show;
  if (of_a_file)
    usage_error(
        "'{}' is a folder; --format, --dtype, --tokenizer, --first and --show are for single files: name one of its "
        "shards",
        arguments.file);
  const data::CorpusReport report = data::inspect_corpus(arguments.file, arguments.sha256);
  std::cout << (arguments.json ? data::to_json(report) : data::describe(report));
  return report.problems.empty() ? kDone : kFailed;
}

}  // namespace

int data_inspect(const DataInspectArguments& arguments) {
  std::error_code error;
  if (std::filesystem::is_directory(arguments.file, error)) return inspect_folder(arguments);
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
