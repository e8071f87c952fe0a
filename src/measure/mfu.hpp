// Model FLOPs utilisation under named definitions, the peaks of known devices, and the numbers of a steady state.
//
// mfu_causal counts 6·P + 6·L·a·S FLOPs a token (P without the input embedding, a = H·h the attention width: causal
// attention does half of the square), mfu_palm 6·P + 12·L·a·S (Chowdhery et al. 2022, appendix B), mfu_total 6·P_all + 12·L·a·S.
// Peaks are dense figures of the makers' data sheets; a device that is not in the table gives no MFU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mylos::measure {

struct DevicePeak {
  const char* name;                       // as in the table
  double bf16, fp8, tf32, fp32;           // FLOP/s, dense; 0: the device does not have it
  double memory_bandwidth;                // bytes/s
  const char* source;
};
// `device` is what the driver calls it ("NVIDIA H200").
std::optional<DevicePeak> device_peak(std::string_view device);

struct ModelSize {
  std::int64_t parameters = 0;            // all
  std::int64_t embedding_parameters = 0;  // of them in the input embedding, 0 when the table is also the head
  std::int64_t layers = 0;
  std::int64_t attention_width = 0;       // H·h
  std::int64_t sequence = 0;              // S
};

struct MfuDefinition {
  const char* name;     // "mfu_causal", ...
  const char* formula;
  double flops_per_token;
};
std::vector<MfuDefinition> mfu_definitions(const ModelSize& size);

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
// Percentile bootstrap of the median, 2,000 resamples drawn with Philox (same values, same interval); from 2,048 values on
// the distribution-free interval of order statistics, to which the bootstrap converges. Values must be finite, n >= 1.
MedianInterval median_interval(std::span<const double> values, std::uint64_t seed = 0);

}  // namespace mylos::measure
