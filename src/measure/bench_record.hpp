// Component benchmarks in a bundle of kind `bench`: cases, their raw samples, and what follows from them.
//
//   Bundle bundle(path, BundleKind::bench);  bundle.set(provenance); bundle.set(hardware); bundle.set_config(options as TOML);
//   BenchRecord record(bundle, {.warm_up = "...", .stop = "...", .reject = "..."});
//   record.add({.name = "harness/copy/1GiB", ...}, samples);   // once a case, when it has been measured or skipped
//   record.roofline("memory", "harness/copy/1GiB");            // before or after the cases that are held against it
//   bundle.maybe_publish(); ... bundle.finish();
//
// /cases has one row a case, /samples/calls one a sample; /derived/cases (median, MAD, 95 % interval, rates, roofline, share) is
// computed anew at each publish from nothing but those two, and `mylos validate` computes it once more. docs/bundle.md has the columns.
// Error: a name twice, a case without samples that does not say why, a time that is not finite and positive, a roofline of an unknown case.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/bundle.hpp"
#include "measure/statistics.hpp"

namespace mylos::measure {

inline constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

struct BenchCase {
  std::string name;       // unique in the bundle; what `mylos diff` pairs by: "7b/swiglu_forward/bf16"
  std::string component;  // forward, optimizer, data, checkpoint, harness
  std::string dtype{};    // of the operands, "bf16"; "" when that says nothing. It names the roofline of FLOPs.
  // Work of the device that kernels run on (the CPU, in its variant), not of the host: decides which rooflines hold.
  bool on_device = false;
  bool warm = false;  // operands may stay in caches; otherwise they rotate or are flushed
  std::int64_t threads = 1;
  // Of one call, 0: not counted. Operands count once, so bytes are the least that memory moves.
  double flops = 0, bytes = 0, items = 0;
  double memory_bytes = 0;    // of the device, that one set of operands takes; 0: not counted
  std::string item_units{};   // "tokens"; "" without items
  std::string work_source{};  // where flops, bytes and items come from: "model::step_ledger, op rms_norm"
  // The check in the same process before timing: largest error and what it may be, in the units of the check; or why there is none.
  double error = kNotKnown, bound = kNotKnown;
  std::string check{};     // against what: "double on the host, 64 rows"
  std::string no_check{};  // why there is none
  std::int64_t calls_per_sample = 0;
  std::int64_t warm_up_calls = 0;
  double warm_up_s = 0;
  std::string stop{};     // why sampling ended: "width", "budget" or "samples"
  std::string skipped{};  // why it was not measured; then there are no samples
};

// One timed stretch of calls_per_sample calls. On the device clock, power, temperature and reasons are NVML's, which averages power over
// a second on Hopper.
struct BenchSample {
  double time_s = 0;  // of one call
  double sm_clock_mhz = kNotKnown, power_w = kNotKnown, temperature_c = kNotKnown;
  double throttle_reasons = kNotKnown;  // NVML's bit mask
  bool rejected = false;                // by the recorded rule; kept, but not in the figures
};

// Rules in words, as they were applied.
struct BenchRules {
  std::string warm_up, stop, reject;
};

// What the samples of a case say; NaN for what cannot be said. Times of one call.
struct BenchFigures {
  std::int64_t samples = 0;                                                       // that were not rejected
  double median = kNotKnown, mad = kNotKnown, low = kNotKnown, high = kNotKnown;  // s
  double flop_rate = kNotKnown, byte_rate = kNotKnown, item_rate = kNotKnown;     // a second
  double sm_clock = kNotKnown;                                                    // MHz, median
  double roofline = kNotKnown;  // s: longer of FLOPs and bytes at the rates of the run's rooflines
  double share = kNotKnown;     // roofline / median; 1 is as fast as what it is held against
};

// limit ("memory", "host_memory" or a dtype) -> rate (byte/s or FLOP/s).
using Rooflines = std::map<std::string, double>;
// The samples must be those of the case; without roofline and share when `rooflines` lacks what the case needs.
BenchFigures figures_of(const BenchCase& c, std::span<const BenchSample> samples, const Rooflines& rooflines);

class BenchRecord {
 public:
  BenchRecord(Bundle& bundle, const BenchRules& rules);  // the bundle must outlive it
  BenchRecord(const BenchRecord&) = delete;
  BenchRecord& operator=(const BenchRecord&) = delete;

  void add(const BenchCase& c, std::span<const BenchSample> samples);
  // limit: "memory" (bytes of the case over its median), "host_memory" (the same; the bytes of cases that are not on_device are held
  // against it, and their FLOPs against nothing) or a dtype (FLOPs over the median). The last one of a limit counts.
  void roofline(const std::string& limit, const std::string& case_name);

  const std::vector<BenchCase>& cases() const { return cases_; }
  Rooflines rooflines() const;            // from the samples so far
  BenchFigures figures(int index) const;  // of cases()[index], with the rooflines so far

 private:
  int find(std::string_view name) const;
  void summarize(Bundle& bundle) const;

  Bundle& bundle_;
  int table_;
  std::vector<BenchCase> cases_;
  std::vector<BenchFigures> figures_;     // of each case, without rooflines
  std::map<std::string, int> rooflines_;  // limit -> case
};

}  // namespace mylos::measure
