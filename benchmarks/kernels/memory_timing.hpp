// How the memory-bound ops are timed: recorded calls on operands that rotate, beside copies of the same run. One translation unit
// includes it.
//
// On a GPU a sample is at least 20 ms of recorded launches between two events, so that neither the host nor the clock
// shows; calls rotate over sets of operands of at least 512 MiB together, so that the L2 cache (50 MB) does not help. On
// a CPU shapes are small and caches warm: a check that all runs, not a measurement of memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "benchmarks/kernels/bench_support.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "tensor/async.hpp"

namespace mylos {
namespace {

namespace k = kernels;
using Call = std::function<void()>;

constexpr int kSamples = 5;
constexpr double kSampleSeconds = 0.02;

// One allocation that every case cuts its operands from. It is filled with bf16 normal numbers once: read as f32 they
// are normal numbers too.
class Pool {
 public:
  explicit Pool(std::int64_t bytes) : owned_(bench::empty(DType::bf16, {bytes / 2})) {
    k::random_normal(stream_, 1, 0, 1.0f, owned_.tensor);
    stream_.fence();
  }
  const Stream& stream() const { return stream_; }
  std::int64_t used() const { return used_; }
  std::int64_t left() const { return owned_.buffer.bytes() - used_; }
  void reset() { used_ = 0; }

  Tensor take(DType dtype, std::initializer_list<std::int64_t> extents) {
    const Tensor window(static_cast<char*>(owned_.buffer.data()) + used_, dtype, extents);
    check(window.bytes() <= left(), "the benchmark's pool has {} bytes left; {} takes {}", left(), window.describe(),
          window.bytes());
    used_ += (window.bytes() + 255) / 256 * 256;
    return window;
  }
  Tensor integers(const std::vector<std::int32_t>& values) {
    const Tensor t = take(DType::i32, {std::int64_t(values.size())});
    upload(stream_, values.data(), t.bytes(), t);
    return t;
  }

 private:
  Stream stream_;
  bench::Owned owned_;
  std::int64_t used_ = 0;
};

std::optional<Pool> pool;  // between the runtime's start and its end

struct Row {
  std::string name;
  double bytes, seconds, copy_seconds;  // of a copy of as many bytes
};
std::vector<Row> table;
double copy_rate = 0;                            // bytes per second of the faster copy
std::map<std::int64_t, double> seconds_of_copy;  // by bytes

// Calls that are timed together, recorded where that is possible.
class Timed {
 public:
  explicit Timed(std::vector<Call> calls) : calls_(std::move(calls)) {
    once();
    pool->stream().fence();
    if (Graph::available()) graph_.emplace(pool->stream(), [this] { once(); });
    seconds(1);
    rounds_ = std::max<std::int64_t>(1, std::int64_t(std::ceil(kSampleSeconds / seconds(1))));
  }
  // Seconds of one call.
  double sample() { return seconds(rounds_) / double(rounds_ * std::int64_t(calls_.size())); }

 private:
  void once() {
    for (const Call& call : calls_) call();
  }
  double seconds(std::int64_t rounds) {
    start_.record(pool->stream());
    for (std::int64_t i = 0; i < rounds; ++i) graph_ ? graph_->launch(pool->stream()) : once();
    stop_.record(pool->stream());
    stop_.wait();
    return stop_.seconds_since(start_);
  }

  std::vector<Call> calls_;
  std::optional<Graph> graph_;
  Event start_, stop_;
  std::int64_t rounds_ = 1;
};

double median(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + std::ptrdiff_t(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

// As many sets of operands as it takes that caches do not help; `make` cuts one from the pool and returns the call on it.
std::vector<Call> rotating(const std::function<Call(Pool&)>& make) {
  pool->reset();
  std::vector<Call> calls{make(*pool)};
  const std::int64_t footprint = pool->used(), rotate = device_info().is_gpu ? std::int64_t(1) << 29 : 0;
  while (pool->used() < rotate && pool->left() >= footprint) calls.push_back(make(*pool));
  while (calls.size() < 4) calls.push_back(calls.front());
  return calls;
}

Call copy_by_packs(Pool& p, std::int64_t bytes) {
  const std::int64_t n = std::max<std::int64_t>(1, bytes / 4);  // bf16, read and written
  const Tensor from = p.take(DType::bf16, {n}), to = p.take(DType::bf16, {n});
  return [=, &p] { k::convert(p.stream(), from, to); };
}

double seconds_of_copy_of(std::int64_t bytes) {
  const auto known = seconds_of_copy.find(bytes);
  if (known != seconds_of_copy.end()) return known->second;
  Timed timed(rotating([=](Pool& p) { return copy_by_packs(p, bytes); }));
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) samples.push_back(timed.sample());
  return seconds_of_copy[bytes] = median(samples);
}

void add(const std::string& name, double bytes, const std::function<Call(Pool&)>& make) {
  const auto run = [=](benchmark::State& state) {
    std::vector<double> samples;
    {
      Timed timed(rotating(make));
      for (auto _ : state) {
        samples.push_back(timed.sample());
        state.SetIterationTime(samples.back());
      }
    }
    const double seconds = median(samples), copy_seconds = seconds_of_copy_of(std::int64_t(bytes));
    if (name.starts_with("copy")) copy_rate = std::max(copy_rate, bytes / seconds);
    state.counters["TB/s"] = bytes / seconds * 1e-12;
    if (copy_rate > 0) state.counters["of_copy"] = bytes / seconds / copy_rate;
    state.counters["of_same"] = copy_seconds / seconds;
    table.push_back({name, bytes, seconds, copy_seconds});
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Iterations(kSamples)->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace mylos
