#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "data/python_tool.hpp"

namespace mylos::cli {

int campaign(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = data::command_of_script("campaign");
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  for (std::string& a : argv) raw.push_back(a.data());
  raw.push_back(nullptr);
  // The rows run with this program.
  ::setenv("MYLOS", std::filesystem::read_symlink("/proc/self/exe").c_str(), 1);
  ::execvp(raw[0], raw.data());
  fail("cannot start '{}' for {}: {}; name a Python with MYLOS_PYTHON", argv[0], argv[1], std::strerror(errno));
}

}  // namespace mylos::cli
