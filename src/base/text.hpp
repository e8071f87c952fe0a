// Small helpers on text: the nearest name for a mistyped one, and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mylos {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment).
std::int64_t edit_distance(std::string_view a, std::string_view b);

// The known name nearest to `name`, or "" when none is near enough to be what was meant (or none is known).
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

// "512 B", "1.50 KiB", "16.06 GiB".
std::string format_bytes(std::int64_t bytes);
// "850 ms", "12.3 s", "4 min 05 s", "3 h 20 min", "2 d 04 h".
std::string format_duration(double seconds);
// "999", "12.3k", "8.03B": three significant digits.
std::string format_count(double count);

bool is_utf8(std::string_view text);

// A text that came from a file, fit for a terminal: control characters and bytes that are not UTF-8 become escapes as in C (\n, \x1b), so that
// it is one line and steers nothing.
std::string printable(std::string_view text);

// Now, as "2026-12-01T17:45:00Z".
std::string utc_now();

}  // namespace mylos
