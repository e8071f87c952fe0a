// Statistics of samples that were timed one after the other: location, spread, and how two series of them differ.
//
// Values are given in the order in which they were measured, because neighbours resemble each other (clocks, heat, other programs): the
// integrated autocorrelation time tau says how many samples are worth one that is independent, and intervals and tests widen by it.
// Everything is deterministic: the same values give the same numbers. Values must be finite, and there must be at least one; otherwise Error.
// Sources: Mann and Whitney, Ann. Math. Stat. 18 (1947); Hodges and Lehmann, Ann. Math. Stat. 34 (1963); Geyer, Stat. Sci. 7 (1992), section
// 3.3 (tau); Holm, Scand. J. Stat. 6 (1979).
#pragma once

#include <span>
#include <vector>

#include "measure/mfu.hpp"

namespace mylos::measure {

double median(std::span<const double> values);
// Median of the distances from the median; times 1.4826 it estimates the standard deviation of normal values.
double median_absolute_deviation(std::span<const double> values);

// tau >= 1, of the values' ranks, so that single outliers do not count; 1 for fewer than 8 values.
double autocorrelation_time(std::span<const double> in_order);

// measure::median_interval with the distances of its ends from the median times sqrt(tau), of values none of which is below 0 cut off at 0. Below 2,048 values it takes about 40 us a value: a
// stopping rule asks at growing numbers of samples, not after each.
MedianInterval sample_interval(std::span<const double> in_order);
// (high - low) / median of it; what a stopping rule compares with its target.
double relative_width(const MedianInterval& interval);

// How b differs from a. `shift` is the Hodges-Lehmann estimate, the median of all b_j - a_i, and [low, high] its 95 % interval (infinite when
// there are too few values for one: below 4 + 4). p is two-sided of the Mann-Whitney test: exact for up to 30 + 30 values without ties
// and with tau = 1, otherwise by the normal limit with corrections for continuity and ties, its variance widened by tau of each series.
// Never smaller than the exact one where that exists.
struct Shift {
  double shift = 0, low = 0, high = 0, p = 1;
  double u = 0;                 // pairs with b_j > a_i, ties as a half
  double tau_a = 1, tau_b = 1;  // as used
};
Shift compare_locations(std::span<const double> a, std::span<const double> b);
// The same with both tau given, 1 for values that are independent by design.
Shift compare_locations(std::span<const double> a, std::span<const double> b, double tau_a, double tau_b);

// How far differences of pairs lie from 0, when each pair was measured side by side: median and 95 % interval of all means of two of them
// (Hodges and Lehmann), p two-sided of Wilcoxon's signed ranks, both from the exact distribution; u counts means above 0, taus are 1. What both
// of a pair share (load, heat, a clock that drifts) cancels. 1 to 200 differences; below 6 there is no interval, and p cannot be below 0.05.
Shift compare_pairs(std::span<const double> differences);

// P(U <= u) of the Mann-Whitney statistic for n and m values without ties, exact: n, m <= 30.
double mann_whitney_cdf(int n, int m, int u);

// Holm's adjusted p: those below 0.05 hold together with an error of 5 %.
std::vector<double> holm(std::span<const double> p);

}  // namespace mylos::measure
