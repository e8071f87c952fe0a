// Products by our own kernel for Hopper (hopper_tiles.hpp): bf16 in and out, any transposition, alpha, beta and addend.
//
// Needs rows of A, B, C and the addend that begin at multiples of 16 bytes and have a multiple of 8 elements in C: tiles_take() says whether a product is such a one
// and the device can. Small products are right, and slow: a tile is 128 x 256.
#pragma once

#include <string>

#include "kernels/matmul/providers.hpp"

namespace mylos::kernels::detail {

using kernels::TileOptions;

bool has_tiles();  // this build and this device
bool tiles_take(const Product& p);
std::string describe(const TileOptions& options);  // "tiles strip 8 lag 2"
void tiles_product(const Stream& stream, const Product& p, const TileOptions& options = {});

}  // namespace mylos::kernels::detail
