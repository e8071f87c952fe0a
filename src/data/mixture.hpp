// Which source each sample of the training order comes from, by weights that may change at given places (phases).
//
// Weights are made multiples of 1/65,536 that sum to 1 exactly: none is off by that much, and a positive one is at least that.
// With integer weights w of sum P, a period of P places is laid out once: the n-th sample of a source has the places
// from floor((n - 1)·P / w) to ceil(n·P / w) - 1 to choose from, and the one whose time ends first goes first (the windows of
// Pfair scheduling: Baruah, Cohen, Plaxton and Varvel, "Proportionate progress", Algorithmica 1996, by which earliest
// deadline first keeps every window). So k places into a phase each source has had less than one sample more or less than its
// share k·w/P, any run of places within a phase is exact to less than two, and whole periods are exact.
//
// A place is answered in O(log phases), whatever its size: nothing is iterated and nothing is stored but the periods.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mylos::data {

inline constexpr std::int64_t kWeightUnits = 65536;
inline constexpr std::int64_t kMostSources = 4096;

// Integers in the proportion of `weights` (at least 0, not all of them), by the largest remainder; their sum is
// kWeightUnits divided by what they have in common.
std::vector<std::int64_t> quantised(std::span<const double> weights);

// One period of places.
class Schedule {
 public:
  explicit Schedule(std::vector<std::int64_t> units);

  std::int64_t period() const { return std::int64_t(places_.size()); }
  const std::vector<std::int64_t>& units() const { return units_; }  // samples of each source in a period
  // Of a place >= 0 counted from the beginning: its source, and how many of that source's samples come before it.
  struct Turn {
    std::int64_t source, index;
  };
  Turn at(std::int64_t place) const;
  // Samples of each source before a place.
  std::vector<std::int64_t> before(std::int64_t place) const;

 private:
  struct Place {
    std::uint16_t source;
    std::uint32_t index;  // within the period
  };
  std::vector<std::int64_t> units_;
  std::vector<Place> places_;
};

struct MixturePhase {
  std::int64_t start = 0;  // its first place; that of the first phase is 0
  std::vector<double> weights;
};

class Mixture {
 public:
  explicit Mixture(const std::vector<MixturePhase>& phases);

  std::size_t sources() const { return phases_.front().base.size(); }
  std::size_t phases() const { return phases_.size(); }
  std::size_t phase_at(std::int64_t place) const;
  double weight(std::size_t phase, std::size_t source) const;  // as quantised; those of a phase sum to 1
  // Across phases: index counts all samples that the source gave before.
  Schedule::Turn at(std::int64_t place) const;
  std::vector<std::int64_t> before(std::int64_t place) const;

 private:
  struct Phase {
    std::int64_t start;
    Schedule schedule;
    std::vector<std::int64_t> base;  // samples of each source before the phase
  };
  std::vector<Phase> phases_;
};

}  // namespace mylos::data
