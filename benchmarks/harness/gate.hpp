// A gate in a stream's queue: what is queued behind it waits until the host opens it, so that a series of launches begins when all of it is
// queued and the host's speed does not show in their times.
//
// A gate opens by itself after kMost, since a stream's queue is finite and the host would wait for room in it for ever. On a CPU, where work
// is done when the call returns, it is always open.
#pragma once

#include <chrono>
#include <memory>

#include "tensor/runtime.hpp"

namespace mylos::bench {

class Gate {
 public:
  static constexpr std::chrono::milliseconds kMost{200};

  Gate();
  ~Gate();  // open
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void close(const Stream& stream);
  void open();
  // Whether it opened by itself since it was closed last; the host's speed may show in what was behind it.
  bool gave_up() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace mylos::bench
