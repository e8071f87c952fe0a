#include "checkpoint/isolate.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/usage.hpp"

namespace mylos::checkpoint {

namespace {

constexpr std::size_t kMaxAnswer = 256u << 20;

// AddressSanitizer reserves terabytes of address space for its shadow: no limit can be set there.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitMemory = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kLimitMemory = false;
#else
constexpr bool kLimitMemory = true;
#endif
#else
constexpr bool kLimitMemory = true;
#endif

void limit_child() {
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT, SIGTERM, SIGALRM}) signal(s, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (!kLimitMemory) return;
  std::uint64_t pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    unsigned long long first = 0;
    if (std::fscanf(f, "%llu", &first) == 1) pages = first;
    std::fclose(f);
  }
  if (pages == 0) return;
  const rlim_t most = rlim_t(pages) * rlim_t(sysconf(_SC_PAGESIZE)) + (rlim_t(4) << 30);
  const rlimit memory{most, most};
  setrlimit(RLIMIT_AS, &memory);
}

bool send(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += std::size_t(n);
  }
  return true;
}

}  // namespace

std::string run_isolated(const std::string& what, double seconds, const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) fail("cannot make a pipe to read {}: {}", what, std::strerror(errno));
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    const int reason = errno;
    close(ends[0]);
    close(ends[1]);
    fail("cannot start a process to read {}: {}", what, std::strerror(reason));
  }
  if (child == 0) {
    close(ends[0]);
    limit_child();
    std::string answer;
    try {
      answer.push_back('+');
      answer += work();
    } catch (const UsageError& e) {
      answer = fmt::format("?{}", e.what());
    } catch (const std::bad_alloc&) {
      answer = fmt::format("-{} asks for more memory than reading it may take", what);
    } catch (const std::exception& e) {
      answer = fmt::format("-{}", e.what());
    }
    // The last byte tells a whole answer from one that was cut.
    _exit(send(ends[1], answer) && send(ends[1], ".") ? 0 : 3);
  }
  close(ends[1]);
  std::string answer;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  bool late = false, too_much = false;
  char block[65536];
  for (;;) {
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    pollfd p{ends[0], POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&p, 1, int(std::min(left, 3600.0) * 1000) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      late = true;
      break;
    }
    const ssize_t n = read(ends[0], block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    answer.append(block, std::size_t(n));
    if (answer.size() > kMaxAnswer) {
      too_much = true;
      break;
    }
  }
  close(ends[0]);
  if (late || too_much) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  check(!late, "{} was not read within {:.0f} s; it is damaged, or the disk is too slow", what, seconds);
  check(!too_much, "{} has more to tell than {} bytes; it is damaged", what, kMaxAnswer);
  const bool whole = answer.size() >= 2 && answer.back() == '.' && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!whole) {
    fail("{} is damaged: reading it crashed the HDF5 library ({}); use a copy from before the damage", what,
         WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended early");
  }
  answer.pop_back();
  if (answer[0] == '?') throw UsageError(answer.substr(1), __FILE__, __LINE__);
  if (answer[0] == '-') throw Error(answer.substr(1), __FILE__, __LINE__);
  return answer.substr(1);
}

double reading_limit_s(const std::string& path) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  return 60.0 + (failed ? 0.0 : double(bytes) / double(1 << 30) * 20.0);
}

}  // namespace mylos::checkpoint
