// Counter-based initialisation: element i depends on (seed, first_index + i) alone, whatever the sharding or thread
// count.
#pragma once

#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

// t[i] = std_dev * N(0, 1), rounded to t's dtype (f32 or bf16). Box-Muller on Philox words of (seed, Purpose::init);
// the normal number of global element g = first_index + i uses block g / 4, word g % 4 (pairs share a block).
void random_normal(const Stream& stream, std::uint64_t seed, std::uint64_t first_index, float std_dev, const Tensor& t);

}  // namespace mylos::kernels
