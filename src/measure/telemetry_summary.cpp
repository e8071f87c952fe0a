#include "measure/telemetry_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "measure/mfu.hpp"
#include "measure/nvml.hpp"
#include "measure/statistics.hpp"
#include "measure/train_figures.hpp"

namespace mylos::measure {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The value at time t of a series with rising times; NaN outside it.
double at(std::span<const double> times, std::span<const double> values, double t) {
  const auto after = std::lower_bound(times.begin(), times.end(), t);
  if (after == times.end()) return kUnknown;
  const std::size_t i = std::size_t(after - times.begin());
  if (*after == t) return values[i];
  if (i == 0) return kUnknown;
  const double part = (t - times[i - 1]) / (times[i] - times[i - 1]);
  return values[i - 1] + part * (values[i] - values[i - 1]);
}

struct Window {
  double energy_j = 0, time_s = 0, tokens = 0;
  std::vector<double> sm_clocks;
  std::int64_t samples = 0, capped = 0;
};

Window measure(const StepSeries& steps, const GpuSeries& gpu, const SteadyWindow& steady) {
  const std::span<const double> times = gpu.time;
  Window w;
  for (std::int64_t s = steady.first; s < steady.end; ++s) {
    const double end = steps.time[std::size_t(s)], begin = end - steps.step_time[std::size_t(s)];
    const double energy = at(times, gpu.energy, end) - at(times, gpu.energy, begin);
    // The last steps end after the last sample: they count neither with their energy nor with their tokens.
    if (std::isfinite(energy)) {
      w.energy_j += energy;
      w.time_s += end - begin;
      w.tokens += steps.tokens[std::size_t(s)];
    }
    const auto from = std::upper_bound(times.begin(), times.end(), begin),
               to = std::upper_bound(from, times.end(), end);
    for (auto i = std::size_t(from - times.begin()); i < std::size_t(to - times.begin()); ++i) {
      ++w.samples;
      w.capped +=
          std::isfinite(gpu.throttle_reasons[i]) && (std::uint64_t(gpu.throttle_reasons[i]) & kReasonPowerCap) != 0;
      if (std::isfinite(gpu.sm_clock[i])) w.sm_clocks.push_back(gpu.sm_clock[i]);
    }
  }
  return w;
}

std::string why_none(const Window& w) {
  if (w.samples < 2)
    return fmt::format("{} samples of the GPU in the steady window; at least 2 are needed: run longer", w.samples);
  if (w.time_s <= 0) return "the driver counts no energy";
  return "";
}

}  // namespace

Figures gpu_figures(const StepSeries& steps, const GpuSeries& gpu, const SteadyWindow& window) {
  Figures f;
  const bool no_times = !steps.time.empty() && !std::isfinite(steps.time.back());
  std::string why = steps.time.empty() ? "no step was recorded" : no_times ? "the times of steps are not recorded" : "";
  Window w;
  if (why.empty()) {
    w = measure(steps, gpu, window);
    why = why_none(w);
  }
  if (!why.empty()) f.attribute("/derived", "no_energy", why);
  if (w.samples >= 2) {
    if (!w.sm_clocks.empty())
      f.figures.push_back(
          {"/summary/sm_clock_median", median(w.sm_clocks), {"MHz", "median SM clock over the steady window"}});
    f.figures.push_back({"/summary/power_capped_share",
                         double(w.capped) / double(w.samples),
                         {"1", "part of the samples of the steady window whose clocks the power cap held down"}});
  }
  if (!why.empty()) return f;
  f.figures.push_back(
      {"/summary/power_mean", w.energy_j / w.time_s, {"W", "energy over time of the steady window's steps"}});
  f.figures.push_back({"/derived/energy_per_token",
                       w.energy_j / w.tokens,
                       {"J/token", "energy of the GPU over the tokens of the steady window's steps"}});
  return f;
}

void summarize_telemetry(Bundle& b, int gpu) {
  StepSeries steps;
  if (const std::optional<int> table = b.find_table("samples", "steps")) {
    steps.tokens = b.column(*table, "tokens");
    steps.step_time = b.column(*table, "step_time");
    steps.time = b.column(*table, "time");
  }
  b.remove_attribute("/derived", "no_energy");
  put(b, gpu_figures(steps,
                     {.time = b.column(gpu, "time"),
                      .energy = b.column(gpu, "energy"),
                      .sm_clock = b.column(gpu, "sm_clock"),
                      .throttle_reasons = b.column(gpu, "throttle_reasons")},
                     steady_window(std::int64_t(steps.time.size()))));
}

}  // namespace mylos::measure
