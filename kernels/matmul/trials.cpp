#include "kernels/matmul/trials.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace mylos::kernels::detail {
namespace {

constexpr double kProbe = 0.02;
// On an H200 bursts of 0.2 s found algorithms 2.0 % faster over an 8B block that made its step no faster: they took fewer
// cycles at the clock of the moment, and more power, which lowers the clock later.
constexpr double kShortest = 0.03, kLongest = 1.2;
constexpr double kFast = 200e-6;  // a product below this does not reach the power limit: a short burst tells
constexpr double kProbeBehind = 1.06, kBehind = 1.03;
constexpr std::size_t kFinalists = 5, kVariants = 2;  // beside candidate 0
constexpr double kNoise = 0.002;
constexpr int kRounds = 2;

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const std::size_t half = x.size() / 2;
  return x.size() % 2 == 1 ? x[half] : (x[half - 1] + x[half]) / 2;
}

class Trials {
 public:
  Trials(std::size_t candidates, const RunBursts& run) : run_(run), samples_(candidates) {
    for (std::size_t i = 0; i < candidates; ++i) left_.push_back(i);
  }

  void round(double seconds, bool backwards) {
    std::vector<Burst> bursts;
    for (const std::size_t c : left_) bursts.push_back({c, seconds});
    if (backwards) std::reverse(bursts.begin(), bursts.end());
    const std::vector<double> times = run_(bursts);
    check(times.size() == bursts.size(), "{} times came back of {} bursts", times.size(), bursts.size());
    for (std::size_t i = 0; i < bursts.size(); ++i) samples_[bursts[i].candidate].push_back(times[i]);
  }

  // Candidates whose median is this many times the best one's leave; 0 stays.
  void drop(double behind) {
    double best = INFINITY;
    for (const std::size_t c : left_) best = std::min(best, seconds(c));
    std::erase_if(left_, [&](std::size_t c) { return c != 0 && !(seconds(c) <= behind * best); });
  }

  // The best few, at most `most` from `variant` on, and 0.
  void keep_best(std::size_t few, std::size_t variant, std::size_t most) {
    std::vector<std::size_t> order = left_;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return seconds(a) < seconds(b); });
    std::erase(order, std::size_t(0));
    std::size_t seen = 0;
    std::erase_if(order, [&](std::size_t c) { return c >= variant && ++seen > most; });
    if (order.size() > few) order.resize(few);
    std::erase_if(left_,
                  [&](std::size_t c) { return c != 0 && std::find(order.begin(), order.end(), c) == order.end(); });
  }

  // What was measured so far was only to find out who goes on.
  void forget() {
    for (const std::size_t c : left_) samples_[c].clear();
  }

  double seconds(std::size_t c) const { return median(samples_[c]); }
  const std::vector<std::size_t>& left() const { return left_; }

 private:
  const RunBursts& run_;
  std::vector<std::vector<double>> samples_;
  std::vector<std::size_t> left_;
};

}  // namespace

Ranking rank(std::size_t candidates, double budget_s, const RunBursts& run, std::size_t variants) {
  check(candidates > 0, "there is nothing to rank");
  check(variants < candidates, "{} of {} candidates are variants; the first must be none", variants, candidates);
  Trials trials(candidates, run);
  trials.round(kProbe, false);
  trials.drop(kProbeBehind);
  trials.keep_best(kFinalists, candidates - variants, kVariants);
  // A guess at what comes: all that are left once, most of them twice.
  const double left = double(trials.left().size()), bursts = left + (kRounds - 1) * std::min(left, 3.0);
  const double wanted = trials.seconds(0) < kFast ? kShortest : kLongest;
  const double burst = std::clamp((budget_s - double(candidates) * kProbe) / bursts, kShortest, wanted);
  trials.forget();
  for (int round = 0; round < kRounds; ++round) {
    trials.round(burst, round % 2 == 1);
    if (round == 0) trials.drop(kBehind);
  }

  Ranking r;
  for (std::size_t c = 0; c < candidates; ++c) r.seconds.push_back(trials.seconds(c));
  for (const std::size_t c : trials.left())
    if (r.seconds[c] < r.seconds[r.best]) r.best = c;
  if (!(r.seconds[r.best] < (1 - kNoise) * r.seconds[0])) r.best = 0;
  check(std::isfinite(r.seconds[r.best]), "none of {} candidates ran", candidates);
  return r;
}

}  // namespace mylos::kernels::detail
