// Whether a stored figure is the one that its samples give: equal but for builds that round differently. NaN stands for a value that is not known;
// an infinite one agrees with itself only.
#pragma once

#include <cmath>

namespace mylos::measure {

inline bool agree(double stored, double computed, double relative = 1e-9) {
  if (std::isnan(stored) || std::isnan(computed)) return std::isnan(stored) && std::isnan(computed);
  if (std::isinf(computed)) return stored == computed;  // any distance is within a part of it
  return std::abs(stored - computed) <= relative * std::abs(computed);
}

}  // namespace mylos::measure
