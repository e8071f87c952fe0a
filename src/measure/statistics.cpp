#include "measure/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "base/error.hpp"

namespace mylos::measure {
namespace {

constexpr double kZ = 1.959964;  // of a two-sided 95 % interval
constexpr int kExactLimit = 30;  // values a side up to which the exact distribution is made
constexpr std::int64_t kFewest = 4;

void check_values(std::span<const double> values) {
  check(!values.empty(), "statistics need at least one value");
  for (const double v : values) check(std::isfinite(v), "statistics need finite values, one is {}", v);
}

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> v(values.begin(), values.end());
  std::sort(v.begin(), v.end());
  return v;
}

double middle(const std::vector<double>& sorted_values) {
  const std::size_t half = sorted_values.size() / 2;
  return sorted_values.size() % 2 ? sorted_values[half] : 0.5 * (sorted_values[half - 1] + sorted_values[half]);
}

// Ranks from 0 on; equal values share their mean rank.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> rank(values.size());
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) rank[order[i]] = 0.5 * double(first + end - 1);
  }
  return rank;
}

// Doubles as integers in the same order, to halve an interval of them exactly.
std::int64_t ordered(double v) {
  const auto bits = std::bit_cast<std::int64_t>(v);
  return bits >= 0 ? bits : std::numeric_limits<std::int64_t>::min() - bits;
}
double from_ordered(std::int64_t i) {
  return std::bit_cast<double>(i >= 0 ? i : std::numeric_limits<std::int64_t>::min() - i);
}

// All differences b_j - a_i of sorted values, of which there may be more than memory holds.
class Differences {
 public:
  Differences(const std::vector<double>& a, const std::vector<double>& b) : a_(a), b_(b) {}
  std::int64_t count() const { return std::int64_t(a_.size() * b_.size()); }
  std::int64_t at_most(double t) const {
    std::int64_t total = 0;
    std::size_t i = 0;  // first a that is near enough below b_j, or above it
    for (const double b : b_) {
      while (i < a_.size() && b - a_[i] > t) ++i;
      total += std::int64_t(a_.size() - i);
    }
    return total;
  }
  // The k-th smallest, k from 1.
  double smallest(std::int64_t k) const {
    std::int64_t low = ordered(b_.front() - a_.back()), high = ordered(b_.back() - a_.front());
    while (low < high) {
      const std::int64_t mid = std::midpoint(low, high) - (std::midpoint(low, high) == high ? 1 : 0);
      if (at_most(from_ordered(mid)) >= k)
        high = mid;
      else
        low = mid + 1;
    }
    return from_ordered(high);
  }
  double median() const {
    const std::int64_t n = count();
    return n % 2 ? smallest(n / 2 + 1) : 0.5 * (smallest(n / 2) + smallest(n / 2 + 1));
  }

 private:
  const std::vector<double>&a_, &b_;
};

// sum of t^3 - t over groups of t equal values.
double tie_sum(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all(a);
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  double sum = 0;
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    while (end < all.size() && all[end] == all[first]) ++end;
    const double t = double(end - first);
    sum += t * t * t - t;
  }
  return sum;
}

// P(U = u), u = 0 ... n*m, by the recursion of Mann and Whitney (their equation 5) on probabilities.
std::vector<double> mann_whitney_density(int n, int m) {
  std::vector<std::vector<double>> row(std::size_t(m) + 1, std::vector<double>(1, 1.0));  // n = 0: U is 0
  for (int i = 1; i <= n; ++i) {
    std::vector<double> left(1, 1.0);  // m = 0
    for (int j = 1; j <= m; ++j) {
      // The largest value is one of the i (it exceeds all j others) or of the j.
      std::vector<double> p(std::size_t(i * j) + 1, 0.0);
      const double of_i = double(i) / double(i + j);
      for (std::size_t u = 0; u < row[std::size_t(j)].size(); ++u)
        p[u + std::size_t(j)] += of_i * row[std::size_t(j)][u];
      for (std::size_t u = 0; u < left.size(); ++u) p[u] += (1 - of_i) * left[u];
      row[std::size_t(j)] = p;
      left = std::move(p);
    }
  }
  return row[std::size_t(m)];
}

}  // namespace

double median(std::span<const double> values) {
  check_values(values);
  return middle(sorted(values));
}

double median_absolute_deviation(std::span<const double> values) {
  const double center = median(values);
  std::vector<double> distances;
  for (const double v : values) distances.push_back(std::abs(v - center));
  return median(distances);
}

double autocorrelation_time(std::span<const double> in_order) {
  check_values(in_order);
  const std::size_t n = in_order.size();
  if (n < 8) return 1;
  std::vector<double> r = ranks(in_order);
  for (double& v : r) v -= 0.5 * double(n - 1);
  const auto covariance = [&](std::size_t lag) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < n; ++i) sum += r[i] * r[i + lag];
    return sum;
  };
  const double variance = covariance(0);
  if (variance <= 0) return 1;
  double tau = -1;
  for (std::size_t lag = 0; lag + 1 < n / 2; lag += 2) {
    const double pair = (covariance(lag) + covariance(lag + 1)) / variance;
    if (pair <= 0) break;
    tau += 2 * pair;
  }
  // Ranks are taken from their own mean, not the true one, which hides about tau / n of each correlation.
  tau = std::clamp(tau, 1.0, 0.25 * double(n));
  return 1 + (tau - 1) * double(n) / (double(n) - 2 * tau);
}

MedianInterval sample_interval(std::span<const double> in_order) {
  MedianInterval r = median_interval(in_order);
  const double widen = std::sqrt(autocorrelation_time(in_order));
  r.low = r.median - widen * (r.median - r.low);
  r.high = r.median + widen * (r.high - r.median);
  // Times that drift can have distances that reach below all times there are.
  if (r.low < 0 && *std::min_element(in_order.begin(), in_order.end()) >= 0) r.low = 0;
  return r;
}

double relative_width(const MedianInterval& interval) { return (interval.high - interval.low) / interval.median; }

double mann_whitney_cdf(int n, int m, int u) {
  check(n >= 1 && m >= 1 && n <= kExactLimit && m <= kExactLimit,
        "the exact distribution of U is made for 1 to {} values a side, not for {} and {}", kExactLimit, n, m);
  const std::vector<double> p = mann_whitney_density(n, m);
  double sum = 0;
  for (int i = 0; i <= std::min(u, n * m); ++i) sum += p[std::size_t(i)];
  return std::min(1.0, sum);
}

Shift compare_locations(std::span<const double> a, std::span<const double> b) {
  return compare_locations(a, b, autocorrelation_time(a), autocorrelation_time(b));
}

Shift compare_locations(std::span<const double> a, std::span<const double> b, double tau_a, double tau_b) {
  check_values(a);
  check_values(b);
  check(tau_a >= 1 && tau_b >= 1, "autocorrelation times are {} and {}; they must be at least 1", tau_a, tau_b);
  const std::vector<double> x = sorted(a), y = sorted(b);
  const Differences differences(x, y);
  const double n = double(x.size()), m = double(y.size()), pairs = n * m;
  Shift s;
  s.tau_a = tau_a;
  s.tau_b = tau_b;
  s.shift = differences.median();
  const std::int64_t not_above = differences.at_most(0.0), below = differences.at_most(std::nextafter(0.0, -1.0));
  s.u = pairs - 0.5 * double(not_above + below);

  // Under independence U / (n m) varies by about (1/n + 1/m) / 12; each series gives its part tau times over.
  const double ties = tie_sum(x, y), widen = (tau_a / n + tau_b / m) / (1 / n + 1 / m);
  const double deviation = std::sqrt(widen * pairs / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1))));
  const double away = std::abs(s.u - 0.5 * pairs);
  const double normal = deviation > 0 ? std::erfc(std::max(0.0, away - 0.5) / deviation / std::sqrt(2.0)) : 1.0;
  const bool exact = ties == 0 && n <= kExactLimit && m <= kExactLimit;
  // The interval leaves out the `cut` - 1 smallest differences and as many of the largest.
  auto cut = std::int64_t(std::floor(0.5 * pairs + 0.5 - kZ * deviation));
  if (exact) {
    const std::vector<double> density = mann_whitney_density(int(n), int(m));
    double below_u = 0;  // P(U <= the smaller of u and its mirror image)
    for (int i = 0; i <= int(0.5 * pairs - away); ++i) below_u += density[std::size_t(i)];
    const double p = std::min(1.0, 2 * below_u);
    s.p = widen > 1 ? std::max(p, normal) : p;
    std::int64_t exact_cut = 0;
    for (double sum = density[0]; sum <= 0.025; sum += density[std::size_t(exact_cut)]) ++exact_cut;
    cut = widen > 1 ? std::min(cut, exact_cut) : exact_cut;
  } else {
    s.p = normal;
  }
  const bool enough = std::min(x.size(), y.size()) >= std::size_t(kFewest) && cut >= 1;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  s.low = enough ? differences.smallest(cut) : -kInfinite;
  s.high = enough ? differences.smallest(differences.count() + 1 - cut) : kInfinite;
  return s;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return p[i] < p[j]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    largest = std::max(largest, std::min(1.0, double(p.size() - k) * p[order[k]]));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

}  // namespace mylos::measure
