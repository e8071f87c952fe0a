#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "tensor/runtime.hpp"
#include "train/products.hpp"

namespace mylos::cli {
namespace {

// "bf16 [8192, 4096] x [6144, 4096]ᵀ -> bf16   661.2 -> 672.9 TFLOP/s  +1.8 %  algorithm 66 tile 20 ..."
std::string line_of(const kernels::TunedProduct& p) {
  const double tera = kernels::flops_of(p.shape) * 1e-6;  // over microseconds
  const std::string first = p.first_time_us > 0 ? fmt::format("{:6.1f}", tera / p.first_time_us) : "     ?";
  const std::string gain =
      p.first_time_us > 0 ? fmt::format("{:+5.1f} %", 100 * (p.first_time_us / p.time_us - 1)) : "";
  return fmt::format("{:<58}  {} -> {:6.1f} TFLOP/s {}  {}", kernels::describe(p.shape), first, tera / p.time_us, gain,
                     p.description);
}

}  // namespace

int tune(const TuneArguments& arguments) {
  const train::Config config = train::load_config(arguments.config.path, arguments.config.overrides);
  const std::string path = arguments.cache.empty() ? train::usual_products_file() : arguments.cache;
  check(!path.empty(), "neither XDG_CACHE_HOME nor HOME is set; name a file with --cache FILE");
  const Runtime runtime({.threads = int(config.train.threads)});
  const kernels::ProductLibrary library = kernels::product_library();
  kernels::ProductCache cache;
  std::error_code error;
  if (std::filesystem::exists(path, error)) cache = train::load_products(path);

  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  double first_us = 0, best_us = 0;
  kernels::TuneOptions options{.candidates = arguments.candidates, .seconds = arguments.seconds};
  options.known = cache.of(library);
  options.progress = [&](const std::string& text) {
    std::cerr << (terminal ? "\r\033[K" : "") << text << (terminal ? "" : "\n") << std::flush;
  };
  options.done = [&](const kernels::TunedProduct& p) {
    if (terminal) std::cerr << "\r\033[K" << std::flush;
    std::cout << line_of(p) << std::endl;
    first_us += p.first_time_us > 0 ? p.first_time_us : p.time_us;
    best_us += p.time_us;
    cache.put(library, p);
    train::save_products(path, cache);  // what has been measured outlives a run that is stopped
  };
  const std::vector<kernels::ProductShape> shapes = train::product_shapes(config);
  kernels::tune(shapes, options);  // on the CPU an Error that says why not
  std::cout << fmt::format(
      "{} products, each once: {:.2f} ms by the library's first choices, {:.2f} ms tuned ({:.1f} % less)\n{}\n",
      shapes.size(), first_us * 1e-3, best_us * 1e-3, 100 * (1 - best_us / first_us), path);
  return kDone;
}

}  // namespace mylos::cli
