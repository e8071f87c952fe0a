#include "base/error.hpp"

namespace mylos {

Error::Error(const std::string& message, const char* file, int line)
    : std::runtime_error(message), where_(fmt::format("{}:{}", file, line)) {}

void fail_plain(const std::string& message, const char* file, int line) { throw Error(message, file, line); }

}  // namespace mylos
