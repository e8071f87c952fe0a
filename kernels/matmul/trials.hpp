// How candidates are ranked when the device's speed depends on its load: in short turns, again and again, never alone.
//
// Each candidate runs in bursts; a call of RunBursts runs its bursts back to back, so the device never rests between
// them. A short probe tells which few are worth more: it sees the clock of the moment. What counts is the speed once the
// device has settled to what this candidate draws, so the bursts that rank are long (a second, of which the last two
// thirds count), go forth and back, and those 3 % behind leave after the first round. Candidate 0 (the library's first
// choice) always stays, and keeps its place unless another one gains more than the noise. Of candidates that are variants
// of one another, and so about as fast, the probe lets the best two go on: they must not crowd out the others.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace mylos::kernels::detail {

struct Burst {
  std::size_t candidate;
  double seconds;  // about how long
};
// Seconds of one product in the last two thirds of each burst; infinity where the candidate failed.
using RunBursts = std::function<std::vector<double>(std::span<const Burst>)>;

struct Ranking {
  std::size_t best = 0;
  std::vector<double> seconds;  // of each candidate: the median of its rounds, or of what it got before it was left out
};
// At least one candidate, of which the last `variants` are of one kind. budget_s: device time to spend; bursts get
// shorter, down to 30 ms, to keep it.
Ranking rank(std::size_t candidates, double budget_s, const RunBursts& run, std::size_t variants = 0);

}  // namespace mylos::kernels::detail
