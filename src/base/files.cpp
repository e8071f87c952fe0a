#include "base/files.hpp"

#include <filesystem>
#include <system_error>

namespace mylos {
namespace fs = std::filesystem;
namespace {

// Of a path that may not be there: folders that are, with links followed, and the rest as it is written.
fs::path place_of(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) return path;
  const fs::path place = fs::weakly_canonical(whole, error);
  return error ? whole.lexically_normal() : place;
}

}  // namespace

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || place_of(a) == place_of(b);
}

}  // namespace mylos
