#include "measure/mfu.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "tensor/philox.hpp"

namespace mylos::measure {

namespace {

// Dense figures: data sheets that print sparse ones (H100, H200) say so in a footnote, and half of each is meant. The
// first row whose words all occur in the device's name counts, so the more special ones come first.
struct Row {
  std::vector<std::string_view> words;
  DevicePeak peak;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows{
      {{"H200", "NVL"}, {"H200 NVL", 835.5e12, 1671e12, 417.5e12, 60e12, 4.8e12, "NVIDIA H200 data sheet, NVL column"}},
      {{"H200"},
       {"H200 SXM", 989.4e12, 1978.9e12, 494.7e12, 66.9e12, 4.8e12,
        "NVIDIA H200 data sheet; H100 architecture white paper, table 2"}},
      {{"H100", "PCIe"},
       {"H100 PCIe", 756e12, 1513e12, 378e12, 51.2e12, 2.0e12, "H100 architecture white paper, table 2"}},
      {{"H100", "HBM3"},
       {"H100 SXM", 989.4e12, 1978.9e12, 494.7e12, 66.9e12, 3.35e12, "H100 architecture white paper, table 2"}},
      {{"H100", "SXM"},
       {"H100 SXM", 989.4e12, 1978.9e12, 494.7e12, 66.9e12, 3.35e12, "H100 architecture white paper, table 2"}},
      {{"A100", "SXM", "80GB"}, {"A100 SXM 80 GB", 312e12, 0, 156e12, 19.5e12, 2.039e12, "NVIDIA A100 data sheet"}},
      {{"A100", "SXM", "40GB"}, {"A100 SXM 40 GB", 312e12, 0, 156e12, 19.5e12, 1.555e12, "NVIDIA A100 data sheet"}},
  };
  return rows;
}

// The middle value, or the mean of the two; reorders.
double median_of(std::vector<double>& v) {
  const std::size_t half = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(half), v.end());
  const double upper = v[half];
  if (v.size() % 2) return upper;
  return 0.5 * (upper + *std::max_element(v.begin(), v.begin() + std::ptrdiff_t(half)));
}

}  // namespace

std::optional<DevicePeak> device_peak(std::string_view device) {
  // A MIG slice or a vGPU has a part of the whole's peak, and its name contains the whole's.
  if (device.find("MIG") != device.npos || device.find("GRID") != device.npos) return std::nullopt;
  for (const Row& row : table()) {
    const auto occurs = [&](std::string_view word) { return device.find(word) != std::string_view::npos; };
    if (std::all_of(row.words.begin(), row.words.end(), occurs)) return row.peak;
  }
  return std::nullopt;
}

double peak_of(const DevicePeak& device, DType dtype) {
  if (dtype == DType::bf16) return device.bf16;
  if (dtype == DType::f32) return device.tf32 > 0 ? device.tf32 : device.fp32;
  return 0;
}

std::vector<MfuDefinition> mfu_definitions(const model::ModelFlops& flops) {
  return {{"mfu_causal", "6·P + 6·L·H·h·S FLOPs a token; P: weights in matrix products, without the input embedding",
           flops.causal},
          {"mfu_palm", "6·P + 12·L·H·h·S FLOPs a token; P: weights in matrix products, without the input embedding",
           flops.palm},
          {"mfu_total", "6·P_all + 12·L·H·h·S FLOPs a token; P_all: all parameters", flops.total}};
}

std::optional<double> speed_of_light_s(const std::vector<model::OpCost>& ledger, const DevicePeak& device,
                                       std::int64_t devices) {
  check(devices >= 1, "{} devices cannot run a step", devices);
  double seconds = 0;
  for (const model::OpCost& op : ledger) {
    if (op.flops <= 0) continue;
    const double peak = peak_of(device, op.dtype);
    if (peak <= 0) return std::nullopt;
    seconds += op.flops / (peak * double(devices));
  }
  if (seconds <= 0) return std::nullopt;
  return seconds;
}

const char* const kSteadyWindowRule =
    "all steps after the first max(3, min(100, 20 % of the steps)); a run of 4 steps or fewer counts whole";

SteadyWindow steady_window(std::int64_t steps) {
  check(steps >= 0, "a run cannot have {} steps", steps);
  const std::int64_t skip = steps <= 4 ? 0 : std::max<std::int64_t>(3, std::min<std::int64_t>(100, steps / 5));
  return {skip, steps, steps - skip < 10};
}

MedianInterval median_interval(std::span<const double> values, std::uint64_t seed) {
  const std::int64_t n = std::int64_t(values.size());
  check(n >= 1, "a median needs at least one value");
  for (const double v : values) check(std::isfinite(v), "a median needs finite values, one is {}", v);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  MedianInterval r;
  r.median = n % 2 ? sorted[std::size_t(n / 2)] : 0.5 * (sorted[std::size_t(n / 2 - 1)] + sorted[std::size_t(n / 2)]);
  if (n >= 2048) {
    // Ranks of Bin(n, 1/2) at 2.5 and 97.5 %, by its normal approximation (David and Nagaraja, Order Statistics, 7.1).
    const double spread = 1.959964 * 0.5 * std::sqrt(double(n));
    r.low = sorted[std::size_t(std::max(0.0, std::floor(0.5 * double(n) - spread)))];
    r.high = sorted[std::size_t(std::min(double(n - 1), std::ceil(0.5 * double(n) + spread)))];
    r.method = "95 % interval of order statistics";
    return r;
  }
  constexpr int kResamples = 2000;
  std::vector<double> medians(kResamples), sample(static_cast<std::size_t>(n));
  for (int k = 0; k < kResamples; ++k) {
    for (std::int64_t i = 0; i < n; i += 4) {
      const PhiloxBlock words = philox(seed, Purpose::sampling, std::uint32_t(k), std::uint64_t(i));
      for (std::int64_t j = 0; j < 4 && i + j < n; ++j) {
        // The high word of word · n is uniform on [0, n) up to n / 2^32.
        sample[std::size_t(i + j)] = sorted[std::size_t((std::uint64_t(words.v[j]) * std::uint64_t(n)) >> 32)];
      }
    }
    medians[std::size_t(k)] = median_of(sample);
  }
  std::sort(medians.begin(), medians.end());
  r.low = medians[std::size_t(0.025 * kResamples)];
  r.high = medians[std::size_t(0.975 * kResamples) - 1];
  r.method = "95 % percentile bootstrap, 2,000 resamples";
  return r;
}

}  // namespace mylos::measure
