#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "cli/commands.hpp"

namespace mylos::cli {

int bench(const std::vector<std::string>& arguments) {
  namespace fs = std::filesystem;
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  // Installed or packed beside this program; in a build folder, benchmarks/ lies beside src/cli.
  for (const fs::path& folder : {here, here / "../benchmarks", here / "../../benchmarks"}) {
    std::string program = (folder / "mylos-bench").lexically_normal();
    if (::access(program.c_str(), X_OK) != 0) continue;
    std::vector<std::string> argv = arguments;
    argv.insert(argv.begin(), program);
    std::vector<char*> raw;
    for (std::string& a : argv) raw.push_back(a.data());
    raw.push_back(nullptr);
    ::execv(program.c_str(), raw.data());
    fail("cannot start '{}': {}", program, std::strerror(errno));
  }
  fail("there is no mylos-bench beside '{}' or in benchmarks/; build it: ninja -C BUILD benchmarks/mylos-bench",
       (here / "mylos").string());
}

}  // namespace mylos::cli
