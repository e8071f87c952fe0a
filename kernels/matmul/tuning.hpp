// Which of cuBLASLt's algorithms each product runs with, or whether our own tiles do it (tiles.hpp): measured under load, kept as JSON, pinned.
//
//   const ProductCache cache = ProductCache::parse(text, path);  // what `mylos tune` wrote
//   use_products(cache);                                         // from now on products run what it names
//   for (const TunedProduct& p : products_in_use()) ...          // what each product of this process ran, for its record
//
// cuBLASLt ranks its algorithms by a model of a card that is not limited by power; a training step is. All candidates
// give the same bits in every run: the library uses no atomics, parts of a split sum are added in a fixed order, and are
// kept in fp32 here, so that each product is rounded once; tiles add in one order. tune() holds its choice against a second run, too.
// Other providers have nothing to choose: on the CPU use_products() pins nothing, products_in_use() is empty and tune()
// is an Error. docs/products.md has the whole.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

// All that the choice of an algorithm depends on. Letters as in matmul.hpp.
struct ProductShape {
  std::int64_t m = 0, n = 0, l = 0;
  bool transpose_a = false, transpose_b = false;
  DType in = DType::bf16, out = DType::bf16;
  bool adds = false;  // beta is not 0
  // Of A, B, C and the addend (C's when there is none): elements from row to row, and the power of two, up to 256
  // bytes, that divides the address.
  std::array<std::int64_t, 4> stride{}, alignment{};
  auto operator<=>(const ProductShape&) const = default;
};
std::string describe(const ProductShape& shape);  // "bf16 [8192, 4096] x [6144, 4096]ᵀ + C -> bf16"
double flops_of(const ProductShape& shape);

using AlgorithmBytes = std::array<std::uint64_t, 8>;  // a cublasLtMatmulAlgo_t

// How tiles.hpp goes through a product.
struct TileOptions {
  static constexpr int kMostLag = 3;
  // Blocks that run at once have this many pairs of tiles of rows, column by column: about as many rows as columns, so that both stay in the L2 cache.
  int strip = 8;
  int lag =
      2;  // slices of 64 along l that one half of a block is behind the other, at most kMostLag: it multiplies while the other writes
  bool operator==(const TileOptions&) const = default;
};

struct TunedProduct {
  ProductShape shape;
  AlgorithmBytes algorithm{};             // where `tiles` is none
  std::optional<TileOptions> tiles = {};  // our own kernel
  std::string
      description;  // in the library's numbers: algorithm, tile, stages, split, cluster; or "tiles strip 8 lag 2"
  double time_us = 0, first_time_us = 0;  // of it and of the library's first choice, in the same call; 0: not measured
  bool pinned = false;                    // in products_in_use(): from a cache, not the library's first choice
};

// An algorithm means something to one device and one version of the library only.
struct ProductLibrary {
  std::string device;        // as device_info() names it
  std::int64_t version = 0;  // cublasLtGetVersion(); 0: no such library
  auto operator<=>(const ProductLibrary&) const = default;
};
ProductLibrary product_library();

class ProductCache {
 public:
  static constexpr std::int64_t kMaxBytes = std::int64_t(16) << 20;

  // An Error names `name`, the entry and its key: JSON that is none, a missing or unknown key, a value out of bounds,
  // two entries for one product.
  static ProductCache parse(std::string_view json, const std::string& name);
  std::string to_json() const;

  void put(const ProductLibrary& library, const TunedProduct& product);  // replaces one of the same shape
  std::vector<TunedProduct> of(const ProductLibrary& library) const;
  std::size_t size() const { return products_.size(); }

 private:
  std::map<std::pair<ProductLibrary, ProductShape>, TunedProduct> products_;
};

struct PinnedProducts {
  std::size_t pinned = 0;
  std::size_t elsewhere = 0;  // entries of other devices or versions, which are not used
};
// Replaces what was pinned before; an empty cache goes back to the library's first choices. Plans are made anew, so not
// while another thread multiplies or between the recording of a graph and its last replay. An algorithm that the library
// refuses is an Error at the product's first run.
PinnedProducts use_products(const ProductCache& cache);

// Each product that matmul() has run here under `automatic` since the last use_products() in the order of shapes (the first 4096 kinds).
std::vector<TunedProduct> products_in_use();

struct TuneOptions {
  int candidates = 12;  // of the library's ranking; our own tiles come beside them where they fill the card
  std::vector<TunedProduct> known = {};  // chosen before, by this library: candidates of their shapes, too
  double seconds = 80;                   // of device time for all shapes together, beside a second of warm-up
  std::function<void(const TunedProduct&)> done = {};     // after each shape
  std::function<void(const std::string&)> progress = {};  // for people
};
// Measures on random normal numbers in device memory of its own (the operands of the largest product, at least about
// 256 MiB) and returns the best of each shape, in the order given.
std::vector<TunedProduct> tune(std::span<const ProductShape> shapes, const TuneOptions& options);

}  // namespace mylos::kernels
