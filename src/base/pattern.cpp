#include "base/pattern.hpp"

#include <re2/re2.h>

#include "base/usage.hpp"

namespace mylos {

Pattern::Pattern(const std::string& text) {
  if (text.size() > kMostPatternBytes)
    usage_error(
        "a regular expression of {} bytes is too long; at most {} are taken: choose a shorter part of the names",
        text.size(), kMostPatternBytes);
  re2::RE2::Options options(re2::RE2::Quiet);
  options.set_max_mem(kMostPatternMemory);
  expression_ = std::make_unique<re2::RE2>(text, options);
  if (!expression_->ok())
    usage_error("'{}' is no regular expression: {} (RE2's syntax; write \\ before a sign that stands for itself)", text,
                expression_->error());
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

bool Pattern::found_in(std::string_view name) const {
  return re2::RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), *expression_);
}

}  // namespace mylos
