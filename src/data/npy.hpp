// The header of a NumPy .npy file (format versions 1 to 3), for one-dimensional little-endian u16 or u32 arrays.
//
// Throws Error naming `name` for anything else: other dtypes, Fortran order of more than one dimension, a header that
// does not fit the file, a shape whose data the file does not hold. No input crashes or allocates more than the
// header's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/token_format.hpp"

namespace mylos::data {

// `bytes` is the file, or at least its beginning up to the end of the header; file_bytes the size of the whole file.
TokenLayout parse_npy_header(std::span<const std::byte> bytes, std::int64_t file_bytes, const std::string& name);

}  // namespace mylos::data
