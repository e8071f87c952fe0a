#include "data/python_tool.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

extern char** environ;

namespace mylos::data {
namespace fs = std::filesystem;
namespace {

// Standard streams of the child are files in memory: of any size, and no pipe that could fill up while the other side
// waits.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : file_(::memfd_create(name, MFD_CLOEXEC)) {
    check(file_ >= 0, "cannot make a file in memory: {}", std::strerror(errno));
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return file_; }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), bytes.size());
      check(n > 0 || errno == EINTR, "cannot write {} bytes to a file in memory: {}", bytes.size(),
            std::strerror(errno));
      if (n > 0) bytes.remove_prefix(std::size_t(n));
    }
    ::lseek(file_, 0, SEEK_SET);
  }
  std::string read() const {
    std::string all;
    char block[1 << 16];
    ssize_t n;
    while ((n = ::pread(file_, block, sizeof block, off_t(all.size()))) > 0) all.append(block, std::size_t(n));
    check(n == 0, "cannot read a file in memory: {}", std::strerror(errno));
    return all;
  }

 private:
  int file_;
};

std::string last_line(std::string text) {
  while (!text.empty() && std::strchr("\n\r ", text.back())) text.pop_back();
  const std::size_t begin = text.rfind('\n');
  return begin == std::string::npos ? text : text.substr(begin + 1);
}

std::string find_tool() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  check(!error, "cannot tell where this program lies: {}", error.message());
  for (fs::path folder = program.parent_path();; folder = folder.parent_path()) {
    for (const char* place : {"tools/tokenizer.py", "share/mylos/tokenizer.py"})
      if (fs::is_regular_file(folder / place, error)) return (folder / place).string();
    check(folder != folder.parent_path(),
          "tools/tokenizer.py is in no folder above '{}': run mylos from its source tree or an installation",
          program.string());
  }
}

std::string find_python(const std::string& tool) {
  if (const char* set = std::getenv("MYLOS_PYTHON"); set && *set) return set;
  const fs::path own = fs::path(tool).parent_path().parent_path() / ".venv/bin/python";
  std::error_code error;
  return fs::exists(own, error) ? own.string() : "python3";
}

}  // namespace

std::string run_program(const std::vector<std::string>& argv, std::string_view input) {
  MemoryFile in("stdin"), out("stdout"), errors("stderr");
  in.write(input);
  std::vector<char*> raw;
  for (const std::string& a : argv) {
    check(a.find('\0') == std::string::npos, "an argument of '{}' holds a zero byte", argv.front());
    raw.push_back(const_cast<char*>(a.c_str()));
  }
  raw.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const MemoryFile* streams[] = {&in, &out, &errors};
  for (int i = 0; i < 3; ++i) posix_spawn_file_actions_adddup2(&actions, streams[i]->descriptor(), i);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(failed == 0, "cannot start '{}': {}", argv.front(), std::strerror(failed));

  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    check(errno == EINTR, "lost sight of '{}': {}", argv.front(), std::strerror(errno));
  const std::string name = argv.size() > 1 ? fs::path(argv[1]).filename().string() : argv.front();
  check(!WIFSIGNALED(status), "{} was ended by signal {}", name, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  check(WEXITSTATUS(status) == 0, "{}: {}", name, last_line(errors.read()));
  return out.read();
}

std::string run_tokenizer_tool(const std::vector<std::string>& arguments, std::string_view input) {
  const std::string tool = find_tool();
  std::vector<std::string> argv{find_python(tool), tool};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_program(argv, input);
}

}  // namespace mylos::data
