// Whether a stored figure is the one that its samples give: equal but for builds that round differently. NaN stands for a value that is not known.
#pragma once

#include <cmath>

namespace mylos::measure {

inline bool agree(double stored, double computed, double relative = 1e-9) {
  if (std::isnan(stored) || std::isnan(computed)) return std::isnan(stored) && std::isnan(computed);
  return stored == computed || std::abs(stored - computed) <= relative * std::abs(computed);
}

}  // namespace mylos::measure
