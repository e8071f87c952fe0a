// A clean stop on SIGINT, SIGTERM and SIGHUP (the terminal went away): the handler only sets a flag, the training loop looks at it between steps.
// A second signal, a second or more later, ends the process at once (the default action), so nobody has to wait for a long step; `timeout`
// and job schedulers send theirs twice in a moment. And what becomes of SIGXFSZ.
#pragma once

namespace mylos {

// Installs the handlers for its lifetime and puts the old ones back. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // 0, or the signal (SIGINT, SIGTERM, SIGHUP) that asked for the stop.
  static int received();

 private:
  struct Saved;
  Saved* saved_;
};

// From here on a write beyond the limit on a file's size (ulimit -f) is an error of that write, as on a full disk, and not the end of the process.
void full_files_are_errors();

}  // namespace mylos
