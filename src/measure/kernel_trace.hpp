// Every kernel, copy and set that the device does while steps run, with the region that queued it.
//
//   KernelTrace trace;                      // before graphs are recorded: their nodes keep the region they were recorded in
//   trace.start();                          // nothing is queued
//   trace.mark(11); ... queue step 11 ...   // what is queued from here on is of mark 11
//   const KernelRecords r = trace.stop();   // all of it is done
//
// On a GPU the records are CUPTI's: one for each kernel, copy and set that ran, with the device's own times, inside of graphs too. On a
// CPU they are Kokkos' kernels and copies, and what a region did between them (kind host: products of a library, and host code).
// Observes regions, so no OpClock lives beside it. Throws Error where there is no CUPTI, another profiler holds it, a Kokkos tool is
// loaded on a CPU, records were lost, or there are more than kMostRecords.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mylos::measure {

enum class KernelKind { kernel, copy, set, host };
const char* name_of(KernelKind kind);

struct KernelRecord {
  static constexpr std::int32_t kNoMark = -1;
  std::int64_t begin_ns = 0, end_ns = 0;  // of one clock for all records, from an origin of its own
  std::uint32_t name = 0, region = 0;     // places in KernelRecords
  std::int32_t mark = kNoMark;            // that it was queued under
  std::uint32_t stream = 0;
  KernelKind kind = KernelKind::kernel;
  bool in_graph = false;
  std::array<std::int32_t, 3> grid{}, block{};  // of a GPU's kernel
  std::int64_t bytes = 0;                       // of a copy or set; 0: not known
};

struct RegionName {
  std::string phase, op;
  bool empty() const { return phase.empty(); }
  std::string label() const;  // mylos::PHASE::OP, empty for none
};

struct KernelRecords {
  std::vector<KernelRecord> records;  // by begin
  std::vector<std::string> names;     // as a person reads them (readable_kernel_name)
  std::vector<RegionName> regions;    // the first is that of work outside of all regions
  std::string source;                 // who saw it, for the bundle
};

class KernelTrace {
 public:
  static constexpr std::size_t kMostRecords = 1'000'000;
  KernelTrace();
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;
  void start();
  void mark(std::int32_t number);
  KernelRecords stop();

  struct Impl;  // src/measure/kernel_trace_impl.hpp

 private:
  std::unique_ptr<Impl> impl_;
};

// A kernel's symbol without what only a compiler wants: of a Kokkos launch its functor, no argument list, no unnamed namespaces; at
// most 200 letters.
std::string readable_kernel_name(const std::string& symbol);

}  // namespace mylos::measure
