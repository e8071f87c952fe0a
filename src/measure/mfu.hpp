// Model FLOPs utilisation under named definitions, the peaks of known devices, and the numbers of a steady state.
//
// The FLOPs a token of mfu_causal, mfu_palm and mfu_total are those of model/flops.hpp; `sol` is the time that a step's
// ops need at the peak of their dtypes over the time it took. Peaks are dense figures of the makers' data sheets; a
// device that is not in the table gives no MFU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/flops.hpp"

namespace mylos::measure {

struct DevicePeak {
  const char* name;              // as in the table
  double bf16, fp8, tf32, fp32;  // FLOP/s, dense; 0: the device does not have it
  double memory_bandwidth;       // bytes/s
  const char* source;
};
// `device` is what the driver calls it ("NVIDIA H200").
std::optional<DevicePeak> device_peak(std::string_view device);

struct MfuDefinition {
  const char* name;  // "mfu_causal", ...
  const char* formula;
  double flops_per_token;
};
std::vector<MfuDefinition> mfu_definitions(const model::ModelFlops& flops);

// The peak of an operand type: bf16 storage runs at bf16, f32 products at tf32 where the device has it. 0 when unknown.
double peak_of(const DevicePeak& device, DType dtype);

// Least time a step needs at the peak of each op's dtype (s), without memory traffic; nothing when a dtype has no peak.
std::optional<double> speed_of_light_s(const std::vector<model::OpCost>& ledger, const DevicePeak& device,
                                       std::int64_t devices);

// Steps [first, end) of n that count as steady, and the rule in words.
struct SteadyWindow {
  std::int64_t first = 0, end = 0;
  bool short_run = false;  // fewer than 10 steps remain: the figures are indicative
};
extern const char* const kSteadyWindowRule;
SteadyWindow steady_window(std::int64_t steps);

struct MedianInterval {
  double median = 0, low = 0, high = 0;  // 95 %
  const char* method = "";
};
// Percentile bootstrap of the median, 2,000 resamples drawn with Philox (same values, same interval); from 2,048 values
// on the distribution-free interval of order statistics, to which the bootstrap converges. Values must be finite, n >=
// 1.
MedianInterval median_interval(std::span<const double> values, std::uint64_t seed = 0);

}  // namespace mylos::measure
