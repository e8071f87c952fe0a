#include "data/json_error.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace mylos::data {

std::string why_not_json(std::string_view text) {
  try {
    const nlohmann::json parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while parsing value - invalid string: ...; last read: ..."
    std::string_view why = e.what();
    if (const std::size_t dash = why.find(" - "); dash != why.npos) why.remove_prefix(dash + 3);
    why = why.substr(0, why.find("; last read: "));
    return fmt::format("not JSON (byte {}: {})", e.byte, why);
  }
  return "JSON";
}

}  // namespace mylos::data
