// What the kernel benchmarks share: random tensors, and a timed loop that is warm and fenced on both sides.
//
// Times are wall-clock. The operands are the same in each iteration, so caches are as warm as their size lets them be.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/random/random.hpp"
#include "tensor/runtime.hpp"

namespace mylos::bench {

struct Owned {
  Buffer buffer;
  Tensor tensor;
};

inline Owned empty(DType dtype, std::initializer_list<std::int64_t> extents) {
  Owned r;
  r.buffer = Buffer(Tensor(nullptr, dtype, extents).bytes(), "bench");
  r.tensor = Tensor(r.buffer.data(), dtype, extents);
  return r;
}

// Normal numbers, never zeros: a GPU draws less power on zeros and runs faster.
inline Owned normal(const Stream& stream, DType dtype, std::initializer_list<std::int64_t> extents, float std_dev,
                    std::uint64_t seed) {
  Owned r = empty(dtype, extents);
  kernels::random_normal(stream, seed, 0, std_dev, r.tensor);
  return r;
}

template <class F>
void timed(benchmark::State& state, const Stream& stream, double flops, F op) {
  for (int i = 0; i < 3; ++i) op();
  stream.fence();
  for (auto _ : state) {
    op();
    stream.fence();
  }
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// Starts the runtime, lets `add` register what this device can run, and runs it; `finish` may print what was found and
// lets go of device memory.
inline int main(int argc, char** argv, void (*add)(), void (*finish)() = nullptr) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const Runtime runtime;
  const DeviceInfo device = device_info();
  benchmark::AddCustomContext("device", device.name);
  benchmark::AddCustomContext("backend", device.backend);
  benchmark::AddCustomContext("concurrency", std::to_string(device.concurrency));
  add();
  benchmark::RunSpecifiedBenchmarks();
  if (finish != nullptr) finish();
  benchmark::Shutdown();
  return 0;
}

}  // namespace mylos::bench
