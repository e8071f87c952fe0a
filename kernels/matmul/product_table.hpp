// What the process knows of its products: which algorithm is pinned for each shape, and what ran. One for all threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/matmul/tuning.hpp"

namespace mylos::kernels::detail {

// Replaces what is pinned, and forgets what ran.
void pin_products(std::span<const TunedProduct> products);
// Changes with each pin_products(): plans made before are out of date.
std::uint64_t pinned_generation();
std::optional<TunedProduct> pinned_product(const ProductShape& shape);

inline constexpr std::size_t kMostNoted =
    4096;  // a caller whose shapes never repeat must not grow memory without bound
void note_product(const TunedProduct& product);
std::vector<TunedProduct> noted_products();

}  // namespace mylos::kernels::detail
