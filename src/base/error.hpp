// The one exception of mylos and the checks that throw it.
//
//   check(n > 0, "train.steps is {}; it must be at least 1", n);
//   fail("'{}' is not a dtype; use one of {}", name, known);
//
// A message says the value, the bound, and what to change. The file and line of the caller are kept beside it:
// what() is the message alone (what a user reads), where() is "file:line" (what a developer reads).
//
// Files that go through nvcc (those that include Kokkos) use check_plain / fail_plain: nvcc's front end and fmt's
// compile-time checks do not get along.
#pragma once

#if !defined(__CUDACC__)
#include <fmt/format.h>
#endif

#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace mylos {

class Error : public std::runtime_error {
 public:
  Error(const std::string& message, const char* file, int line);
  const std::string& where() const noexcept { return where_; }

 private:
  std::string where_;
};

[[noreturn]] void fail_plain(const std::string& message, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE());
inline void check_plain(bool ok, const char* message, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  if (!ok) [[unlikely]]
    fail_plain(message, file, line);
}

#if !defined(__CUDACC__)
// A format string that remembers where it was written.
template <class... Args>
struct FormatAt {
  template <class S>
  requires std::convertible_to<const S&, std::string_view>
  consteval FormatAt(const S& text_, const char* file_ = __builtin_FILE(), int line_ = __builtin_LINE())
      : text(text_), file(file_), line(line_) {}

  fmt::format_string<Args...> text;
  const char* file;
  int line;
};

template <class... Args>
[[noreturn]] void fail(FormatAt<std::type_identity_t<Args>...> message, Args&&... args) {
  throw Error(fmt::format(message.text, std::forward<Args>(args)...), message.file, message.line);
}

template <class... Args>
void check(bool ok, FormatAt<std::type_identity_t<Args>...> message, Args&&... args) {
  if (!ok) [[unlikely]]
    throw Error(fmt::format(message.text, std::forward<Args>(args)...), message.file, message.line);
}
#endif

}  // namespace mylos
