#include "measure/telemetry_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "measure/mfu.hpp"
#include "measure/nvml.hpp"

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

Window measure(const Bundle& b, int steps, int gpu, const SteadyWindow& steady) {
  const auto ends = b.column(steps, "time"), durations = b.column(steps, "step_time"),
             tokens = b.column(steps, "tokens");
  const auto times = b.column(gpu, "time"), energies = b.column(gpu, "energy"), clocks = b.column(gpu, "sm_clock"),
             reasons = b.column(gpu, "throttle_reasons");
  Window w;
  for (std::int64_t s = steady.first; s < steady.end; ++s) {
    const double end = ends[std::size_t(s)], begin = end - durations[std::size_t(s)];
    const double energy = at(times, energies, end) - at(times, energies, begin);
    // The last steps end after the last sample: they count neither with their energy nor with their tokens.
    if (std::isfinite(energy)) {
      w.energy_j += energy;
      w.time_s += end - begin;
      w.tokens += tokens[std::size_t(s)];
    }
    const auto from = std::upper_bound(times.begin(), times.end(), begin),
               to = std::upper_bound(from, times.end(), end);
    for (auto i = std::size_t(from - times.begin()); i < std::size_t(to - times.begin()); ++i) {
      ++w.samples;
      w.capped += (std::uint64_t(reasons[i]) & kReasonPowerCap) != 0;
      if (std::isfinite(clocks[i])) w.sm_clocks.push_back(clocks[i]);
    }
  }
  return w;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.size() % 2 ? v[v.size() / 2] : 0.5 * (v[v.size() / 2 - 1] + v[v.size() / 2]);
}

std::string why_none(const Window& w) {
  if (w.samples < 2)
    return fmt::format("{} samples of the GPU in the steady window; at least 2 are needed: run longer", w.samples);
  if (w.time_s <= 0) return "the driver counts no energy";
  return "";
}

}  // namespace

void summarize_telemetry(Bundle& b, int gpu) {
  const std::optional<int> steps = b.find_table("samples", "steps");
  std::string why = steps && b.rows(*steps) > 0 ? "" : "no step was recorded";
  Window w;
  if (why.empty() && !std::isfinite(b.column(*steps, "time").back())) why = "the times of steps are not recorded";
  if (why.empty()) {
    w = measure(b, *steps, gpu, steady_window(b.rows(*steps)));
    why = why_none(w);
  }
  if (why.empty())
    b.remove_attribute("/derived", "no_energy");
  else
    b.set_attribute("/derived", "no_energy", why);
  if (w.samples >= 2) {
    if (!w.sm_clocks.empty())
      b.set_summary("sm_clock_median", median(w.sm_clocks), {"MHz", "median SM clock over the steady window"});
    b.set_summary("power_capped_share", double(w.capped) / double(w.samples),
                  {"1", "part of the samples of the steady window whose clocks the power cap held down"});
  }
  if (!why.empty()) return;
  b.set_summary("power_mean", w.energy_j / w.time_s, {"W", "energy over time of the steady window's steps"});
  b.set_derived("energy_per_token", w.energy_j / w.tokens,
                {"J/token", "energy of the GPU over the tokens of the steady window's steps"});
}

}  // namespace mylos::measure
