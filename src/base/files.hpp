// Names of files.
#pragma once

#include <string>

namespace mylos {

// Whether two paths name one file, there already or still to come: spellings, links and hard links do not matter.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace mylos
