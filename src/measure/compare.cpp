#include "measure/compare.hpp"

#include <algorithm>
#include <cmath>

#include "base/usage.hpp"
#include "measure/statistics.hpp"

namespace mylos::measure {
namespace {

constexpr double kSignificant = 0.05;
constexpr std::size_t kFewestRounds = 5, kFewestPairs = 6;
constexpr std::size_t kFewestSamples = 8;  // of one run: from there on it shows whether neighbours resemble each other

// Accepted samples of one side, round by round; in cycles or in seconds, as logarithms.
struct Series {
  std::vector<std::vector<double>> rounds;

  std::vector<double> all() const {
    std::vector<double> values;
    for (const auto& r : rounds) values.insert(values.end(), r.begin(), r.end());
    return values;
  }
  std::vector<double> medians() const {
    std::vector<double> values;
    for (const auto& r : rounds) values.push_back(median(r));
    return values;
  }
};

Series series_of(const Rounds& rounds, bool in_cycles) {
  Series series;
  for (const auto& round : rounds) {
    series.rounds.emplace_back();
    for (const BenchSample& s : round)
      if (!s.rejected) series.rounds.back().push_back(std::log(s.time_s * (in_cycles ? s.sm_clock_mhz * 1e6 : 1.0)));
  }
  return series;
}

struct Sides {
  Series a, b;
};

// Without rounds that have no accepted sample; of pairs both go.
Sides sides_of(const ComparedCase& c, bool in_cycles, bool paired) {
  Sides s{series_of(c.a, in_cycles), series_of(c.b, in_cycles)};
  if (paired) {
    for (std::size_t i = 0; i < s.a.rounds.size(); ++i)
      if (s.a.rounds[i].empty() || s.b.rounds[i].empty()) {
        s.a.rounds[i].clear();
        s.b.rounds[i].clear();
      }
  }
  for (Series* side : {&s.a, &s.b}) std::erase_if(side->rounds, [](const auto& round) { return round.empty(); });
  return s;
}

Change change_of(const Sides& s, const std::string& method) {
  Shift shift;
  if (method == "samples") {
    const std::vector<double> a = s.a.all(), b = s.b.all();
    shift = compare_locations(a, b);
    if (std::min(a.size(), b.size()) < kFewestSamples) return {std::exp(shift.shift)};
  } else {
    const std::vector<double> a = s.a.medians(), b = s.b.medians();
    if (method == "rounds") {
      shift = compare_locations(a, b, 1, 1);
    } else {
      std::vector<double> differences;
      for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(b[i] - a[i]);
      shift = compare_pairs(differences);
    }
  }
  return {std::exp(shift.shift), std::exp(shift.low), std::exp(shift.high), shift.p};
}

// Median SM clock of the accepted samples; NaN unless each of them has one.
double clock_of(const Rounds& rounds) {
  std::vector<double> clocks;
  for (const auto& round : rounds)
    for (const BenchSample& s : round) {
      if (s.rejected) continue;
      if (!(std::isfinite(s.sm_clock_mhz) && s.sm_clock_mhz > 0)) return kNotKnown;
      clocks.push_back(s.sm_clock_mhz);
    }
  return clocks.empty() ? kNotKnown : median(clocks);
}

std::string percent(double ratio) { return fmt::format("{:+.2f} %", 100 * (ratio - 1)); }

// Everything of a comparison but its verdict, which needs the p of all cases.
Comparison measure(const ComparedCase& c, const CompareOptions& options) {
  const Sides sides = sides_of(c, false, options.paired);
  const std::vector<double> a = sides.a.all(), b = sides.b.all();
  Comparison r;
  r.rounds_a = std::int64_t(sides.a.rounds.size());
  r.rounds_b = std::int64_t(sides.b.rounds.size());
  r.samples_a = std::int64_t(a.size());
  r.samples_b = std::int64_t(b.size());
  const bool many_rounds = std::min(sides.a.rounds.size(), sides.b.rounds.size()) >= kFewestRounds;
  r.method = options.paired ? "paired" : many_rounds ? "rounds" : "samples";
  if (a.empty() || b.empty()) return r;
  r.median_a = std::exp(median(a));
  r.median_b = std::exp(median(b));
  r.time = change_of(sides, r.method);
  r.clock_a = clock_of(c.a);
  r.clock_b = clock_of(c.b);
  if (c.in_cycles && std::isfinite(r.clock_a) && std::isfinite(r.clock_b))
    r.cycles = change_of(sides_of(c, true, options.paired), r.method);
  return r;
}

std::string why_unsure(const Comparison& r, double threshold) {
  if (r.samples_a == 0 || r.samples_b == 0) return "no accepted samples on one side";
  if (r.time.low <= 0 || std::isinf(r.time.high))
    return r.method == "samples"
               ? fmt::format("{} and {} samples are too few for an interval", r.samples_a, r.samples_b)
               : fmt::format("{} and {} rounds are too few for an interval", r.rounds_a, r.rounds_b);
  const Change without_p{r.time.ratio, r.time.low, r.time.high, 0};
  if (judge(without_p, threshold) != Verdict::unsure)
    return fmt::format("p = {:.2g} over all cases: more {}", r.time.p, r.method == "samples" ? "samples" : "rounds");
  return fmt::format("between {} and {}: measure longer, or it is near the threshold", percent(r.time.low),
                     percent(r.time.high));
}

std::string clocks_text(const Comparison& r) {
  return fmt::format("SM clock {:.0f} MHz in A, {:.0f} MHz in B", r.clock_a, r.clock_b);
}

bool beyond_half(const Change& c, Verdict side, double threshold) {
  const double half = 0.5 * std::log1p(threshold);
  return side == Verdict::slower ? std::log(c.low) > half : std::log(c.high) < -half;
}

void decide(Comparison& r, const ComparedCase& c, double threshold) {
  r.verdict = judge(r.time, threshold);
  if (r.verdict == Verdict::unsure) {
    r.reason = why_unsure(r, threshold);
    return;
  }
  if (!c.in_cycles) return;
  if (!r.cycles) {
    r.reason = "not confirmed in cycles: no SM clock beside the samples";
    return;
  }
  if (r.verdict == Verdict::same) {
    const Verdict cycles = judge(*r.cycles, threshold);
    if (cycles != Verdict::faster && cycles != Verdict::slower) return;
    r.reason = fmt::format("same time at another clock ({}): {} in cycles", clocks_text(r), percent(r.cycles->ratio));
    if (!c.memory_bound) r.verdict = Verdict::unsure;
    return;
  }
  if (beyond_half(*r.cycles, r.verdict, threshold)) return;
  r.reason = fmt::format("{} by {} in time, but {} to {} in cycles: {}", name_of(r.verdict), percent(r.time.ratio),
                         percent(r.cycles->low), percent(r.cycles->high), clocks_text(r));
  r.verdict = Verdict::unsure;
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::same:
      return "SAME";
    case Verdict::faster:
      return "FASTER";
    case Verdict::slower:
      return "SLOWER";
    case Verdict::unsure:
      break;
  }
  return "UNSURE";
}

Verdict judge(const Change& change, double threshold) {
  const double t = std::log1p(threshold), low = std::log(change.low), high = std::log(change.high),
               shift = std::log(change.ratio);
  if (low > -t && high < t) return Verdict::same;
  if (!(change.p < kSignificant)) return Verdict::unsure;
  if (shift > t && low > 0.5 * t) return Verdict::slower;
  if (shift < -t && high < -0.5 * t) return Verdict::faster;
  return Verdict::unsure;
}

void check_threshold(double threshold) {
  if (!(threshold > 0 && threshold <= 0.5))
    usage_error("the threshold is {}; it must be above 0 and at most 0.5 (50 %)", threshold);
}

std::vector<Comparison> compare_cases(std::span<const ComparedCase> cases, const CompareOptions& options) {
  check_threshold(options.threshold);
  std::vector<Comparison> results;
  std::vector<double> p;
  for (const ComparedCase& c : cases) {
    check(!options.paired || (c.a.size() == c.b.size() && c.a.size() >= kFewestPairs),
          "{} and {} rounds do not pair; paired needs as many on both sides, at least {}", c.a.size(), c.b.size(),
          kFewestPairs);
    results.push_back(measure(c, options));
    p.push_back(results.back().time.p);
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].time.p = adjusted[i];
    decide(results[i], cases[i], options.threshold);
  }
  return results;
}

}  // namespace mylos::measure
