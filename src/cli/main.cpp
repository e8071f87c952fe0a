// `mylos`: the command line, and nothing else.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "base/text.hpp"
#include "base/usage.hpp"
#include "cli/options.hpp"

namespace {

using namespace mylos;

// Messages are one line and steer no terminal, whatever a library or a file put into them.
int report(const std::string& message, int code) {
  std::string line = message;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::cout.flush();
  constexpr std::size_t kMost = 4000;  // whatever was given, and is said again
  line = printable(line);
  if (line.size() > kMost) line = line.substr(0, kMost) + "...";
  std::cerr << "mylos: " << line << '\n';
  return code;
}

// Overrides (--section.key=value) are set aside before CLI11 sees the rest: it knows no keys.
std::vector<std::string> take_overrides(std::vector<std::string>& arguments) {
  std::vector<std::string> overrides, rest;
  for (const std::string& a : arguments) {
    const std::size_t equals = a.find('='), dot = a.find('.');
    const bool dotted = a.starts_with("--") && dot != std::string::npos && dot < equals;
    if (dotted && equals == std::string::npos)
      throw CLI::ExtrasError(a + " has no value: write " + a + "=VALUE", CLI::ExitCodes::ExtrasError);
    if (dotted)
      overrides.push_back(a.substr(2));
    else
      rest.push_back(a);
  }
  arguments = rest;
  return overrides;
}

// What is wrong where a command should stand; CLI11 would only say that one is missing. Empty: nothing, or an option stands there.
std::string wrong_command(const CLI::App& app, std::span<const std::string> arguments, const std::string& of = "") {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || (!arguments.empty() && arguments[0].starts_with('-'))) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : commands) {
    if (!arguments.empty() && command->check_name(arguments[0]))
      return wrong_command(*command, arguments.subspan(1), of + arguments[0] + " ");
    names.push_back(command->get_name());
  }
  const std::string all = "; the commands are " + of + join(names, ", " + of);
  if (arguments.empty()) return "a subcommand of mylos " + of + "is required" + all;
  const std::string near = nearest_name(arguments[0], names);
  return "unknown command '" + of + arguments[0] + "'" + (near.empty() ? all : "; did you mean '" + of + near + "'?");
}

// Of a pipe on stdout. `mylos train` ignores SIGPIPE: its lines are for people, who may have seen enough.
bool reader_left() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int run(int argc, char** argv) {
  CLI::App app("mylos pretrains Llama-class language models and keeps every measurement.", "mylos");
  app.require_subcommand(1);
  cli::Chosen chosen;
  chosen.config.command_line.assign(argv, argv + argc);
  cli::add_training_commands(app, chosen);
  cli::add_data_commands(app, chosen);
  cli::add_result_commands(app, chosen);

  try {
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    if (const std::string wrong = wrong_command(app, arguments); !wrong.empty()) return report(wrong, cli::kUsage);
    const bool takes_overrides =
        !arguments.empty() &&
        (arguments[0] == "train" || arguments[0] == "plan" || arguments[0] == "profile" || arguments[0] == "tune" ||
         arguments[0] == "config" || (arguments[0] == "data" && arguments.size() > 1 && arguments[1] == "plan"));
    if (takes_overrides) chosen.config.overrides = take_overrides(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return report(std::string(e.what()) + " (mylos --help lists commands and options)", cli::kUsage);
  }
  const int code = chosen.command();
  // A full disk shows only now; a pipe that was closed on purpose ends the process by SIGPIPE and never gets here.
  std::cout.flush();
  if (std::cout.good() || code != cli::kDone || reader_left()) return code;
  return report(std::string("not all of the output could be written; is the disk full?") +
                    (app.got_subcommand("train") ? " The run has ended, its files are whole" : ""),
                cli::kFailed);
}

}  // namespace

int main(int argc, char** argv) {
  mylos::full_files_are_errors();
  try {
    return run(argc, argv);
  } catch (const mylos::UsageError& e) {
    return report(e.what(), mylos::cli::kUsage);
  } catch (const mylos::Error& e) {
    return report(e.what(), mylos::cli::kFailed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", mylos::cli::kFailed);
  } catch (const std::exception& e) {
    return report(std::string("internal error: ") + e.what(), mylos::cli::kFailed);
  }
}
