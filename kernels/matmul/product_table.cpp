#include "kernels/matmul/product_table.hpp"

#include <atomic>
#include <mutex>

namespace mylos::kernels {
namespace detail {
namespace {

std::atomic<std::uint64_t> generation{1};

struct Table {
  std::mutex mutex;
  std::map<ProductShape, TunedProduct> pinned, noted;
};
Table& table() {
  static Table t;
  return t;
}

}  // namespace

void pin_products(std::span<const TunedProduct> products) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  t.pinned.clear();
  t.noted.clear();
  for (const TunedProduct& p : products) t.pinned.insert_or_assign(p.shape, p).first->second.pinned = true;
  ++generation;
}

std::uint64_t pinned_generation() { return generation.load(std::memory_order_acquire); }

std::optional<TunedProduct> pinned_product(const ProductShape& shape) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto found = t.pinned.find(shape);
  return found == t.pinned.end() ? std::nullopt : std::optional(found->second);
}

void note_product(const TunedProduct& product) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  if (t.noted.size() < kMostNoted) t.noted.emplace(product.shape, product);
}

std::vector<TunedProduct> noted_products() {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  std::vector<TunedProduct> all;
  for (const auto& [shape, product] : t.noted) all.push_back(product);
  return all;
}

}  // namespace detail

PinnedProducts use_products(const ProductCache& cache) {
  const ProductLibrary library = product_library();
  const std::vector<TunedProduct> ours = library.version > 0 ? cache.of(library) : std::vector<TunedProduct>{};
  detail::pin_products(ours);
  return {.pinned = ours.size(), .elsewhere = cache.size() - ours.size()};
}

std::vector<TunedProduct> products_in_use() { return detail::noted_products(); }

}  // namespace mylos::kernels
