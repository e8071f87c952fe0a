#include "data/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "base/error.hpp"

namespace mylos::data {

std::vector<std::int64_t> quantised(std::span<const double> weights) {
  check(!weights.empty() && std::int64_t(weights.size()) <= kMostSources, "{} weights; from 1 to {} sources are mixed",
        weights.size(), kMostSources);
  double largest = 0;
  for (const double w : weights) {
    check(std::isfinite(w) && w >= 0, "a weight of {}; it must be at least 0 and finite", w);
    largest = std::max(largest, w);
  }
  check(largest > 0, "all weights are 0; one must be above");
  // By the largest first: a sum of large weights could overflow.
  double sum = 0;
  for (const double w : weights) sum += w / largest;
  std::vector<std::int64_t> units(weights.size(), 0);
  std::vector<std::pair<double, std::size_t>> rest;  // what rounding down took away, and whose it was
  std::int64_t left = kWeightUnits;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    const double exact = weights[i] / largest / sum * double(kWeightUnits);
    units[i] = std::max<std::int64_t>(1, std::int64_t(exact));
    left -= units[i];
    rest.emplace_back(exact - double(units[i]), i);
  }
  std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  // What was raised to 1 is taken from the others, from those that are the most above their share first.
  for (std::size_t k = 0; left > 0; k = (k + 1) % rest.size(), --left) ++units[rest[k].second];
  for (std::size_t k = rest.size(); left < 0;) {
    k = k == 0 ? rest.size() - 1 : k - 1;
    if (units[rest[k].second] <= 1) continue;
    --units[rest[k].second];
    ++left;
  }
  std::int64_t common = 0;
  for (const std::int64_t u : units) common = std::gcd(common, u);
  for (std::int64_t& u : units) u /= common;
  return units;
}

Schedule::Schedule(std::vector<std::int64_t> units) : units_(std::move(units)) {
  std::int64_t period = 0;
  for (const std::int64_t u : units_) {
    check(u >= 0 && u <= kWeightUnits, "a weight of {} units; from 0 to {}", u, kWeightUnits);
    period += u;
  }
  check(period >= 1 && period <= kWeightUnits && std::int64_t(units_.size()) <= kMostSources,
        "a period of {} places for {} sources; it has 1 to {}, for up to {}", period, units_.size(), kWeightUnits,
        kMostSources);
  using Entry = std::pair<std::int64_t, std::size_t>;  // a place, and the source; ties go to the earlier source
  using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  Queue waiting, ready;  // by the first place that the source's next sample may have; by the last
  std::vector<std::int64_t> given(units_.size(), 0);
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (units_[i] > 0) waiting.emplace(0, i);
  places_.reserve(std::size_t(period));
  for (std::int64_t place = 0; place < period; ++place) {
    for (; !waiting.empty() && waiting.top().first <= place; waiting.pop()) {
      const std::size_t i = waiting.top().second;
      ready.emplace(((given[i] + 1) * period + units_[i] - 1) / units_[i], i);
    }
    const std::size_t i = ready.top().second;
    ready.pop();
    places_.push_back({std::uint16_t(i), std::uint32_t(given[i])});
    if (++given[i] < units_[i]) waiting.emplace(given[i] * period / units_[i], i);
  }
}

Schedule::Turn Schedule::at(std::int64_t place) const {
  check(place >= 0, "place {} of a mixture", place);
  const std::int64_t round = place / period();
  const Place& p = places_[std::size_t(place % period())];
  return {p.source, round * units_[p.source] + p.index};
}

std::vector<std::int64_t> Schedule::before(std::int64_t place) const {
  check(place >= 0, "place {} of a mixture", place);
  const std::int64_t round = place / period();
  std::vector<std::int64_t> counts;
  for (const std::int64_t u : units_) counts.push_back(round * u);
  for (std::int64_t k = 0; k < place % period(); ++k) ++counts[places_[std::size_t(k)].source];
  return counts;
}

Mixture::Mixture(const std::vector<MixturePhase>& phases) {
  check(!phases.empty() && phases.front().start == 0, "a mixture needs a phase that begins at place 0");
  for (const MixturePhase& phase : phases) {
    check(phase.weights.size() == phases.front().weights.size(), "a phase of {} weights after one of {}",
          phase.weights.size(), phases.front().weights.size());
    std::vector<std::int64_t> base(phase.weights.size(), 0);
    if (!phases_.empty()) {
      check(phase.start > phases_.back().start, "a phase from place {} after one from {}", phase.start,
            phases_.back().start);
      base = before(phase.start);
    }
    phases_.push_back({phase.start, Schedule(quantised(phase.weights)), std::move(base)});
  }
}

std::size_t Mixture::phase_at(std::int64_t place) const {
  check(place >= 0, "place {} of a mixture", place);
  const auto after = std::upper_bound(phases_.begin(), phases_.end(), place,
                                      [](std::int64_t p, const Phase& phase) { return p < phase.start; });
  return std::size_t(after - phases_.begin()) - 1;
}

double Mixture::weight(std::size_t phase, std::size_t source) const {
  const Schedule& s = phases_.at(phase).schedule;
  return double(s.units().at(source)) / double(s.period());
}

Schedule::Turn Mixture::at(std::int64_t place) const {
  const Phase& phase = phases_[phase_at(place)];
  const Schedule::Turn turn = phase.schedule.at(place - phase.start);
  return {turn.source, phase.base[std::size_t(turn.source)] + turn.index};
}

std::vector<std::int64_t> Mixture::before(std::int64_t place) const {
  const Phase& phase = phases_[phase_at(place)];
  std::vector<std::int64_t> counts = phase.schedule.before(place - phase.start);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += phase.base[i];
  return counts;
}

}  // namespace mylos::data
