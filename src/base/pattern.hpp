// A regular expression from a user, held against names: case names of benchmarks, nothing longer.
//
// RE2's syntax (that of ECMAScript without look-around and back references), UTF-8. A search takes time linear in the name and a bounded
// amount of memory and stack, whatever the pattern: std::regex recurses with the length of the text, and tries nested repetitions in
// exponentially many ways. Throws UsageError that says what is wrong with a pattern, or that it is longer than kMostPatternBytes or repeats so
// often that it needs more memory than kMostPatternMemory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace mylos {

inline constexpr std::size_t kMostPatternBytes = 1000;
inline constexpr std::int64_t kMostPatternMemory = std::int64_t(4) << 20;

class Pattern {
 public:
  explicit Pattern(const std::string& text);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  bool found_in(std::string_view name) const;  // anywhere in it

 private:
  std::unique_ptr<re2::RE2> expression_;
};

}  // namespace mylos
