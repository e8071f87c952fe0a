#include <unistd.h>

#include <csignal>
#include <iostream>

#include "cli/commands.hpp"
#include "tensor/runtime.hpp"
#include "train/run.hpp"

namespace mylos::cli {

int train(const TrainArguments& arguments) {
  const train::Config config = train::load_config(arguments.config.path, arguments.config.overrides);
  // A reader of the output that goes away (`| head`) must not end the run.
  std::signal(SIGPIPE, SIG_IGN);
  const Runtime runtime({.threads = int(config.train.threads)});
  const train::RunResult result = train::run(config, {.out = &std::cout,
                                                      .terminal = ::isatty(STDOUT_FILENO) == 1,
                                                      .command_line = arguments.config.command_line,
                                                      .profile = arguments.profile});
  if (result.status == train::RunStatus::finished) return kDone;
  std::cerr << "mylos: " << result.message << '\n';
  return result.status == train::RunStatus::stopped ? kStopped : kDiverged;
}

}  // namespace mylos::cli
