// Products by our own kernel for Hopper (hopper_tiles.hpp): bf16 in and out, any transposition, alpha, beta and addend.
//
// Needs rows of A, B, C and the addend that begin at multiples of 16 bytes and have a multiple of 8 elements in C: tiles_take() says whether a product is such a one
// and the device can. Small products are right, and slow: a tile is 128 x 256.
#pragma once

#include <string>

#include "kernels/matmul/providers.hpp"

namespace mylos::kernels::detail {

using kernels::TileOptions;

// Two blocks have neighbouring tiles, 256 x 256 together; an H200 has so many of them at work at once.
inline constexpr std::int64_t kPairsAtOnce = 66;
inline std::int64_t pairs_of_tiles(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSide = 256;
  return ((rows + kSide - 1) / kSide) * ((columns + kSide - 1) / kSide);
}

bool has_tiles();  // this build and this device
bool tiles_take(const Product& p);
std::string describe(const TileOptions& options);  // "tiles strip 8 lag 2"
void tiles_product(const Stream& stream, const Product& p, const TileOptions& options = {});

}  // namespace mylos::kernels::detail
