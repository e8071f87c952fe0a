#include "benchmarks/harness/timer.hpp"

#include <algorithm>
#include <chrono>

namespace mylos::bench {

Timer::Timer(const Stream& stream, std::vector<Call> calls, Runs runs)
    : stream_(stream),
      calls_(std::move(calls)),
      device_clock_(device_info().is_gpu && runs != Runs::host),
      gated_(device_clock_ && runs == Runs::recorded) {
  check(!calls_.empty(), "there is nothing to time");
  all();
  stream_.fence();
  if (!gated_) return;
  graph_.emplace(stream_, [this] { all(); });
  seconds(1);
  // A stretch must be few launches, since the queue of a stream is finite; and what is between two launches little of it.
  constexpr double kShortest = 1e-3;
  constexpr std::size_t kMostRecorded = 1024;
  const double once = seconds(1);
  if (once >= kShortest) return;
  const std::size_t own = calls_.size(),
                    times = std::min(std::size_t(kShortest / once) + 1, std::max<std::size_t>(1, kMostRecorded / own));
  calls_.reserve(own * times);
  for (std::size_t i = own; i < own * times; ++i) calls_.push_back(calls_[i - own]);
  graph_.emplace(stream_, [this] { all(); });
}

void Timer::all() const {
  for (const Call& call : calls_) call();
}

void Timer::queue(std::int64_t units) {
  for (std::int64_t i = 0; i < units; ++i) {
    if (graph_) {
      graph_->launch(stream_);
    } else {
      calls_[next_]();
      next_ = (next_ + 1) % calls_.size();
    }
  }
}

double Timer::seconds(std::int64_t units, const std::function<void()>& meanwhile) {
  using Clock = std::chrono::steady_clock;
  if (!device_clock_) {
    const auto start = Clock::now();
    queue(units);
    const auto stop = Clock::now();
    if (meanwhile) meanwhile();
    return std::chrono::duration<double>(stop - start).count();
  }
  stream_.fence();
  if (gated_) gate_.close(stream_);
  start_.record(stream_);
  queue(units);
  stop_.record(stream_);
  gate_.open();
  if (meanwhile) meanwhile();
  stop_.wait();
  return stop_.seconds_since(start_);
}

}  // namespace mylos::bench
