#include "data/python_tool.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
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

std::string find_tool(const std::string& name) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  check(!error, "cannot tell where this program lies: {}", error.message());
  for (fs::path folder = program.parent_path();; folder = folder.parent_path()) {
    for (const char* place : {"tools", "share/mylos", "source/tools"})
      if (fs::is_regular_file(folder / place / name, error)) return (folder / place / name).string();
    check(folder != folder.parent_path(),
          "tools/{} is in no folder above '{}': run mylos from its source tree or an installation", name,
          program.string());
  }
}

std::string find_python(const std::string& tool) {
  if (const char* set = std::getenv("MYLOS_PYTHON"); set && *set) return set;
  const fs::path own = fs::path(tool).parent_path().parent_path() / ".venv/bin/python";
  std::error_code error;
  return fs::exists(own, error) ? own.string() : "python3";
}

std::string name_of_program(const std::vector<std::string>& argv) {
  return argv.size() > 1 ? fs::path(argv[1]).filename().string() : argv.front();
}

pid_t start(const std::vector<std::string>& argv, const std::array<int, 3>& streams) {
  std::vector<char*> raw;
  for (const std::string& a : argv) {
    check(a.find('\0') == std::string::npos, "an argument of '{}' holds a zero byte", argv.front());
    raw.push_back(const_cast<char*>(a.c_str()));
  }
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int i = 0; i < 3; ++i) posix_spawn_file_actions_adddup2(&actions, streams[std::size_t(i)], i);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(failed == 0, "cannot start '{}': {}", argv.front(), std::strerror(failed));
  return child;
}

void wait_for(pid_t child, const std::vector<std::string>& argv, const MemoryFile& errors) {
  const std::string name = name_of_program(argv);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) check(errno == EINTR, "lost sight of {}: {}", name, std::strerror(errno));
  check(!WIFSIGNALED(status), "{} was ended by signal {}", name, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  if (WEXITSTATUS(status) == 0) return;
  std::string why = last_line(errors.read());
  if (why.empty())
    why = fmt::format("'{}' ended with status {} and said nothing{}", argv.front(), WEXITSTATUS(status),
                      name.ends_with(".py") ? "; is it a Python? MYLOS_PYTHON names another" : "");
  fail("{}: {}", name, why);
}

std::vector<std::string> command_of_tool(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = command_of_script("tokenizer.py");
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace

std::vector<std::string> command_of_script(const std::string& name) {
  const std::string script = find_tool(name);
  return {find_python(script), script};
}

std::string run_program(const std::vector<std::string>& argv, std::string_view input) {
  MemoryFile in("stdin"), out("stdout"), errors("stderr");
  in.write(input);
  wait_for(start(argv, {in.descriptor(), out.descriptor(), errors.descriptor()}), argv, errors);
  return out.read();
}

std::string run_tokenizer_tool(const std::vector<std::string>& arguments, std::string_view input) {
  return run_program(command_of_tool(arguments), input);
}

struct TokenizerProcess::State {
  MemoryFile errors{"stderr"};
  std::vector<std::string> argv;
  pid_t child = 0;
  int socket = -1;
};

TokenizerProcess::TokenizerProcess(const std::vector<std::string>& arguments) : state_(std::make_unique<State>()) {
  state_->argv = command_of_tool(arguments);
  // A socket and not pipes: writing to one whose reader has gone is an error here, and no SIGPIPE.
  int ends[2];
  const bool made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
  check(made, "cannot make a socket: {}", std::strerror(errno));
  state_->socket = ends[0];
  try {
    state_->child = start(state_->argv, {ends[1], ends[1], state_->errors.descriptor()});
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
}

TokenizerProcess::~TokenizerProcess() {
  ::close(state_->socket);
  if (state_->child == 0) return;
  ::kill(state_->child, SIGKILL);
  while (::waitpid(state_->child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void TokenizerProcess::fail_as_it_did() {
  ::shutdown(state_->socket, SHUT_RDWR);
  if (state_->child != 0) wait_for(std::exchange(state_->child, 0), state_->argv, state_->errors);
  fail("{} ended before its work was done", name_of_program(state_->argv));
}

void TokenizerProcess::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(state_->socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) fail_as_it_did();
    if (n > 0) bytes.remove_prefix(std::size_t(n));
  }
}

void TokenizerProcess::receive(void* out, std::size_t count) {
  auto* to = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t n = ::recv(state_->socket, to, count, 0);
    if (n == 0 || (n < 0 && errno != EINTR)) fail_as_it_did();
    if (n <= 0) continue;
    to += n;
    count -= std::size_t(n);
  }
}

void TokenizerProcess::finish() {
  ::shutdown(state_->socket, SHUT_WR);
  wait_for(std::exchange(state_->child, 0), state_->argv, state_->errors);
}

}  // namespace mylos::data
