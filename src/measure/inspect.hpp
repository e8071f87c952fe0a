// Looking into bundles and checkpoints: what `mylos inspect` and `mylos validate` print.
//
// All of it runs in a forked child (checkpoint/isolate.hpp): a file that crashes libhdf5 gives an Error, or for
// validate() a finding. validate() holds the file against the schema's rules (docs/bundle.md): attributes, groups,
// units, descriptions, checksums, equal lengths within a table, parsable JSON. An empty list means the file can be
// trusted.
#pragma once

#include <functional>
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
// Throws Error when it is none that the program's readers take. Called in the child.
using ConfigCheck = std::function<void(const std::string& toml)>;
// weights_config: of files of weights, which are read by it; results are read without, and outlive keys that are gone.
std::vector<Finding> validate(const std::string& path, const ConfigCheck& weights_config = {});

}  // namespace mylos::measure
