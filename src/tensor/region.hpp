// Names the op that a stretch of queued work belongs to, for op clocks and profilers.
//
//   { const Region region(stream, "forward", "matmul/qkv"); kernels::linear_forward(...); }
//
// Phases and ops are those of the FLOP ledger (model/flops.hpp), string literals; regions do not nest. The observer hears both ends on
// the host, when the work is queued, not when it runs. With a Kokkos tool loaded at start-up its kernels are grouped under
// `mylos::<phase>::<op>`. When nobody listens a region costs one load. One thread queues work: nothing here is synchronised.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos {

struct RegionObserver {
  virtual ~RegionObserver() = default;
  virtual void begin(const Stream& stream, const char* phase, const char* op) = 0;
  virtual void end(const Stream& stream) = 0;
};
// Takes the place of the observer before, which it returns; nullptr: none. Not while a region is open.
RegionObserver* observe_regions(RegionObserver* observer);

class Region {
 public:
  Region(const Stream& stream, const char* phase, const char* op) {
    if (heard_) begin(stream, phase, op);
  }
  ~Region() {
    if (stream_) end();
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // The runtime says at start-up whether a profiler is there.
  static void profiler_is_loaded(bool loaded);

 private:
  friend RegionObserver* observe_regions(RegionObserver* observer);
  void begin(const Stream& stream, const char* phase, const char* op);
  void end();

  static bool heard_;  // by an observer or a profiler
  const Stream* stream_ = nullptr;
};

}  // namespace mylos
