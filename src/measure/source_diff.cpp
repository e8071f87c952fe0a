#include "measure/source_diff_text.hpp"

#include "source_diff.hpp"

namespace mylos::measure {

const char* source_diff() { return kSourceDiff; }

}  // namespace mylos::measure
