// What --format and --dtype of the data commands say; empty: nothing. A name that is none is an Error that lists them.
#pragma once

#include <string>

#include "data/token_format.hpp"

namespace mylos::cli {

data::TokenFormat token_format_of(const std::string& format, const std::string& dtype);

}  // namespace mylos::cli
