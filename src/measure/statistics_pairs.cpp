#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "measure/statistics.hpp"

namespace mylos::measure {
namespace {

constexpr std::size_t kMostPairs = 200;

// P(W = w), w = 0 ... n (n + 1) / 2: each rank 1 ... n is in the sum or not, as a coin falls.
std::vector<double> signed_rank_density(std::size_t n) {
  std::vector<double> p(n * (n + 1) / 2 + 1, 0.0);
  p[0] = 1;
  std::size_t largest = 0;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    largest += rank;
    for (std::size_t w = largest + 1; w-- > 0;) p[w] = 0.5 * (p[w] + (w >= rank ? p[w - rank] : 0.0));
  }
  return p;
}

}  // namespace

Shift compare_pairs(std::span<const double> differences) {
  const std::size_t n = differences.size();
  check(n >= 1 && n <= kMostPairs, "{} pairs cannot be compared; 1 to {} can", n, kMostPairs);
  for (const double d : differences) check(std::isfinite(d), "statistics need finite values, one is {}", d);
  std::vector<double> means;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j) means.push_back(0.5 * (differences[i] + differences[j]));
  std::sort(means.begin(), means.end());

  Shift s;
  s.shift = median(means);
  for (const double m : means) s.u += m > 0 ? 1 : m == 0 ? 0.5 : 0;
  const std::vector<double> density = signed_rank_density(n);
  double tail = 0;
  const double smaller = std::min(s.u, double(means.size()) - s.u);
  for (std::size_t w = 0; double(w) <= smaller; ++w) tail += density[w];
  s.p = std::min(1.0, 2 * tail);
  std::size_t cut = 0;  // from 1: leave out the cut - 1 smallest means and as many of the largest
  for (double sum = density[0]; sum <= 0.025; sum += density[cut]) ++cut;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  s.low = cut >= 1 ? means[cut - 1] : -kInfinite;
  s.high = cut >= 1 ? means[means.size() - cut] : kInfinite;
  return s;
}

}  // namespace mylos::measure
