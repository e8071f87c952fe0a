#include <fmt/format.h>

#include <iostream>

#include "cli/commands.hpp"
#include "tensor/runtime.hpp"

namespace mylos::cli {

int generate(const train::GenerationOptions& options, int threads) {
  const Runtime runtime({.threads = threads});
  bool begun = false;  // nothing is printed when the weights cannot be used
  const auto begin = [&] {
    if (!begun) std::cout << options.prompt;
    begun = true;
  };
  const train::Generated result = train::generate(options, [&](std::string_view bytes) {
    begin();
    std::cout << bytes << std::flush;
  });
  begin();
  std::cout << '\n';
  std::cerr << fmt::format("{} tokens in {:.1f} s{}\n", result.tokens.size(), result.seconds,
                           result.ended ? ", ended by the model" : "");
  return kDone;
}

}  // namespace mylos::cli
