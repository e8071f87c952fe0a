// What the sources differed from their commit by when the program was built ("" when they did not); made by
// build_stamp.py.
#pragma once

namespace mylos::measure {

const char* source_diff();

}  // namespace mylos::measure
