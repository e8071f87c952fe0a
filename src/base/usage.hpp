// The command line is wrong: an Error that `mylos` and `mylos-bench` answer with exit status 2 instead of 1.
//
//   if (n < 1) usage_error("--steps is {}; it must be at least 1", n);
//
// Messages say what those of check() say (base/error.hpp): the value, the bound, what to change. Kept by checkpoint::run_isolated.
#pragma once

#include "base/error.hpp"

namespace mylos {

class UsageError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void usage_error(FormatAt<std::type_identity_t<Args>...> message, Args&&... args) {
  throw UsageError(fmt::format(message.text, std::forward<Args>(args)...), message.file, message.line);
}

}  // namespace mylos
