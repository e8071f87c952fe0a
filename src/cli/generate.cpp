#include <fmt/format.h>

#include <iostream>

#include "cli/commands.hpp"
#include "tensor/runtime.hpp"

namespace mylos::cli {

int generate(const train::GenerationOptions& options, int threads) {
  const Runtime runtime({.threads = threads});
  std::cout << options.prompt << std::flush;
  const train::Generated result =
      train::generate(options, [](std::string_view bytes) { std::cout << bytes << std::flush; });
  std::cout << '\n';
  std::cerr << fmt::format("{} tokens in {:.1f} s{}\n", result.tokens.size(), result.seconds,
                           result.ended ? ", ended by the model" : "");
  return kDone;
}

}  // namespace mylos::cli
