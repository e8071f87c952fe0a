// One way to time all cases: stretches of calls, on the device's clock where the work is the device's.
//
// Recorded calls, one on each set of operands, become one graph; a stretch is launches of it, queued behind a closed gate between two
// events, so that neither the start of the host nor its speed is in the time. Calls that are only queued are between the two events
// without a gate. Work of the host, and of a device that is the CPU, is between two readings of the steady clock. Without a graph a stretch
// goes on with the set after the last one's. Each stretch ends with the device done.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "benchmarks/harness/case.hpp"
#include "benchmarks/harness/gate.hpp"
#include "tensor/async.hpp"

namespace mylos::bench {

class Timer {
 public:
  // Calls each once, so that libraries are loaded and plans made.
  Timer(const Stream& stream, std::vector<Call> calls, Runs runs);
  // Seconds of a stretch of so many units (launches of the graph, or calls); `meanwhile` is called while a device works on it.
  double seconds(std::int64_t units, const std::function<void()>& meanwhile = {});
  std::int64_t calls_per_unit() const { return graph_ ? std::int64_t(calls_.size()) : 1; }
  bool on_device_clock() const { return device_clock_; }
  bool gate_gave_up() const { return gate_.gave_up(); }  // in the last stretch

 private:
  void all() const;
  void queue(std::int64_t units);

  const Stream& stream_;
  std::vector<Call> calls_;
  std::size_t next_ = 0;
  bool device_clock_, gated_;
  std::optional<Graph> graph_;
  Gate gate_;
  Event start_, stop_;
};

}  // namespace mylos::bench
