#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <ctime>

namespace mylos {

std::int64_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::int64_t> before(columns), last(columns), now(columns);
  for (std::size_t j = 0; j < columns; ++j) last[j] = std::int64_t(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = std::int64_t(i);
    for (std::size_t j = 1; j < columns; ++j) {
      const bool same = a[i - 1] == b[j - 1];
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[columns - 1];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  // Further than this, a suggestion puzzles more than it helps.
  std::int64_t best = std::max<std::int64_t>(2, std::int64_t(name.size()) / 2) + 1;
  std::string found;
  for (const std::string& candidate : known) {
    std::int64_t distance = edit_distance(name, candidate);
    // A shortened name ("lr" for "lr_min", "step" for "steps") is a good guess, though letters are missing.
    if (name.size() >= 2 && candidate.size() > name.size() && candidate.starts_with(name))
      distance = std::min<std::int64_t>(distance, 2);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return fmt::format("-{}", format_duration(-seconds));
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const std::int64_t whole = seconds < 9e15 ? std::llround(seconds) : std::int64_t(9e15);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 24 * 3600) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole % 86400 / 3600);
}

std::string format_count(double count) {
  constexpr std::array<const char*, 5> kUnits{"", "k", "M", "B", "T"};
  std::size_t unit = 0;
  double value = count;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.3g}", value);
  const int digits = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, kUnits[unit]);
}

namespace {

// The sign that `text` begins with, and its bytes; 0 bytes: it is not UTF-8 there.
struct Sign {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};
Sign first_sign(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xE ? 3 : lead >> 3 == 0x1E ? 4 : 0;
  if (length == 0 || length > text.size()) return {};
  std::uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (std::size_t k = 1; k < length; ++k) {
    const auto byte = static_cast<unsigned char>(text[k]);
    if (byte >> 6 != 2) return {};
    code = code << 6 | (byte & 0x3Fu);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

// Controls of ISO 6429, separators of lines, and what turns the direction of a line around.
bool steers(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = first_sign(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Sign sign = first_sign(text);
    const std::size_t bytes = std::max<std::size_t>(sign.bytes, 1);
    if (sign.bytes > 0 && !steers(sign.code)) {
      out += text.substr(0, bytes);
    } else if (text[0] == '\n' || text[0] == '\t') {
      out += text[0] == '\n' ? "\\n" : "\\t";
    } else {
      for (const char c : text.substr(0, bytes)) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace mylos
