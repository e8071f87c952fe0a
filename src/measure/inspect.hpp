// Looking into bundles and checkpoints: what `mylos inspect` and `mylos validate` print.
//
// All of it runs in a forked child (checkpoint/isolate.hpp): a file that crashes libhdf5 gives an Error, or for
// validate() a finding. validate() holds the file against the schema's rules (docs/bundle.md): attributes, groups,
// units, descriptions, checksums, equal lengths within a table, parsable JSON. An empty list means the file can be
// trusted.
#pragma once

#include <string>
#include <vector>

namespace mylos::measure {

std::string inspect_text(const std::string& path);
std::string inspect_json(const std::string& path);  // one object, indented

struct Finding {
  bool error = true;  // false: a warning, e.g. an incomplete run
  std::string where;  // object in the file
  std::string what;
};
std::vector<Finding> validate(const std::string& path);

}  // namespace mylos::measure
