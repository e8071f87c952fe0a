// One side of a comparison as its files describe it, and what of that differs from the other side.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/store.hpp"

namespace mylos::measure {

struct Side {
  std::string path;
  std::vector<std::string> files;            // one, or those of a folder in the order of their names
  std::string kind;                          // of all of them
  std::map<std::string, std::string> facts;  // of the first: "commit", "device", "call", ...
  bool is_gpu = false;
  std::vector<std::string> warnings;  // within the side
};

// Paths of the bundles that `path` names. Error when it is a folder without any.
std::vector<std::string> bundles_of(const std::string& path);
// Reads the description of files that are valid; Error when kinds differ among them.
Side read_side(const std::string& path);
// What differs between the sides that should not, or that a reader must know.
std::vector<std::string> differences(const Side& a, const Side& b);
nlohmann::ordered_json to_json(const Side& side);

}  // namespace mylos::measure
