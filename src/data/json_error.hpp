// What is wrong with a text that is not JSON, for messages.
#pragma once

#include <string>
#include <string_view>

namespace mylos::data {

// "not JSON (byte 9: invalid string: ...)": the parser's words, without its own name and what it had read.
std::string why_not_json(std::string_view text);

}  // namespace mylos::data
