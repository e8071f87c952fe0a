#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "cli/commands.hpp"
#include "cli/token_format.hpp"
#include "data/file.hpp"
#include "data/token_source.hpp"
#include "data/tokenizer.hpp"

namespace mylos::cli {

int detokenize(const DetokenizeArguments& arguments) {
  data::DetokenizeOptions options = arguments.options;
  options.format = token_format_of(arguments.format, arguments.dtype);
  const std::string& output = arguments.output;
  if (output.empty()) {
    data::detokenize(options, [](std::string_view text) { std::cout << text; });
    return kDone;
  }
  // It is replaced by a file of that name: a device must not be.
  std::error_code error;
  const auto type = std::filesystem::status(output, error).type();
  check(type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::regular,
        "'{}' is no file that can be replaced; name another with -o, or leave it out for stdout", output);
  std::vector<std::string> inputs = data::files_read_with(options.file);
  if (!options.tokenizer.empty())
    inputs.insert(inputs.end(), {options.tokenizer, data::token_bytes_path(options.tokenizer)});
  for (const std::string& input : inputs)
    check(!is_same_file(output, input), "'{}' is '{}', which is read; name another with -o", output, input);
  // No file of that name appears unless all of the text is in it.
  const std::string partial = output + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  check(file != nullptr, "cannot write '{}': {}; name another file with -o", partial, std::strerror(errno));
  const auto written = [&](bool good) { data::need_written(good, partial); };
  try {
    data::detokenize(options, [&](std::string_view text) {
      written(std::fwrite(text.data(), 1, text.size(), file) == text.size());
    });
    written(std::fclose(std::exchange(file, nullptr)) == 0);
  } catch (...) {
    if (file) std::fclose(file);
    std::remove(partial.c_str());
    throw;
  }
  written(std::rename(partial.c_str(), output.c_str()) == 0);
  return kDone;
}

}  // namespace mylos::cli
