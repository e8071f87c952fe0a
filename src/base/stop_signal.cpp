#include "base/stop_signal.hpp"

#include <csignal>
#include <ctime>
#include <vector>

#include "base/error.hpp"

namespace mylos {
namespace {
volatile std::sig_atomic_t g_received = 0;
bool g_installed = false;

volatile std::sig_atomic_t g_received_at = 0;  // seconds

std::sig_atomic_t seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called in a handler
  return std::sig_atomic_t(now.tv_sec);
}

extern "C" void mylos_on_stop_signal(int signal) {
  if (g_received == 0) {
    g_received_at = seconds_now();
    g_received = signal;
  } else if (seconds_now() > g_received_at) {
    struct sigaction by_default = {};
    by_default.sa_handler = SIG_DFL;
    sigaction(signal, &by_default, nullptr);
    raise(signal);
  }
}
// Room for a handler beside the stack it interrupts: oneDNN's sgemm keeps data below its stack pointer, further down than the 128 bytes that a signal's
// frame leaves alone. Signals of the process go to its first thread, which is the one that installs this, as long as it takes them.
class OtherStack {
 public:
  OtherStack() {
    stack_t other{};
    other.ss_sp = memory_.data();
    other.ss_size = memory_.size();
    sigaltstack(nullptr, &before_);
    installed_ =
        (before_.ss_flags & SS_DISABLE) != 0 && sigaltstack(&other, nullptr) == 0;  // else there is one already
  }
  ~OtherStack() {
    if (installed_) sigaltstack(&before_, nullptr);
  }
  OtherStack(const OtherStack&) = delete;
  OtherStack& operator=(const OtherStack&) = delete;

 private:
  static constexpr std::size_t kBytes = 128 << 10;  // the registers of AMX alone are 8 KiB
  std::vector<char> memory_ = std::vector<char>(kBytes);
  stack_t before_{};
  bool installed_ = false;
};
}  // namespace

struct StopSignal::Saved {
  OtherStack stack;
  struct sigaction interrupt, terminate, hang_up;
};

StopSignal::StopSignal() : saved_(nullptr) {
  check(!g_installed, "a StopSignal is already installed; one run at a time can own SIGINT, SIGTERM and SIGHUP");
  saved_ = new Saved;
  g_received = 0;
  struct sigaction action = {};
  action.sa_handler = mylos_on_stop_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // reads and writes are not cut short
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &saved_->interrupt);
  sigaction(SIGTERM, &action, &saved_->terminate);
  // What nohup set to be ignored stays ignored.
  sigaction(SIGHUP, nullptr, &saved_->hang_up);
  if (saved_->hang_up.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  g_installed = true;
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &saved_->interrupt, nullptr);
  sigaction(SIGTERM, &saved_->terminate, nullptr);
  sigaction(SIGHUP, &saved_->hang_up, nullptr);
  delete saved_;
  g_installed = false;
}

int StopSignal::received() { return g_received; }

void full_files_are_errors() { std::signal(SIGXFSZ, SIG_IGN); }

}  // namespace mylos
