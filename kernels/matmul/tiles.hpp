// Products by our own kernel for Hopper (hopper_tiles.hpp): bf16 in and out, any transposition, alpha, beta and addend.
//
// Needs rows of A, B, C and the addend that begin at multiples of 16 bytes and have a multiple of 8 elements in C: tiles_take() says whether a product is such a one
// and the device can. Small products are right, and slow: a tile is 128 x 256.
#pragma once

#include "kernels/matmul/providers.hpp"

namespace mylos::kernels::detail {

struct TileOptions {
  // Blocks that run at once have this many pairs of tiles of rows, column by column: about as many rows as columns, so that both stay in the L2 cache.
  int strip = 8;
  int lag =
      2;  // slices of 64 along l that one half of a block is behind the other, at most 3: it multiplies while the other writes
};

bool has_tiles();  // this build and this device
bool tiles_take(const Product& p);
void tiles_product(const Stream& stream, const Product& p, const TileOptions& options = {});

}  // namespace mylos::kernels::detail
