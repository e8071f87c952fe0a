// The products of the op through cuBLASLt, or our own tiles where those were found to be faster: a plan is made when a shape comes for the first time, and kept.
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "kernels/matmul/cublaslt.hpp"
#include "kernels/matmul/product_table.hpp"
#include "kernels/matmul/tiles.hpp"

namespace mylos::kernels::detail {
namespace {

struct Plan {
  LtProduct product;
  AlgorithmBytes algorithm;
  std::optional<TileOptions> tiles = {};
};

// A product by the provider that a caller names is no part of the record, which has one line a shape.
Plan make(const Product& p, const ProductShape& shape, std::int64_t workspace_bytes, bool or_tiles) {
  constexpr const char* kRemedy = "run 'mylos tune' again, or set train.products=\"heuristic\"";
  LtProduct product(shape, workspace_bytes);
  const auto note = [&](const TunedProduct& ran) {
    if (or_tiles) note_product(ran);
  };
  if (const auto pinned = pinned_product(shape); pinned && (or_tiles || !pinned->tiles)) {
    if (pinned->tiles) {
      check(tiles_take(p), "matmul: {} is pinned to tiles of our own, which do not take it on this device; {}",
            kernels::describe(shape), kRemedy);
    } else {
      const std::string refusal = product.refusal(pinned->algorithm);
      check(refusal.empty(), "matmul: cuBLASLt refuses the tuned algorithm of {} ({}): {}; {}",
            kernels::describe(shape), pinned->description, refusal, kRemedy);
    }
    note(*pinned);
    const AlgorithmBytes algorithm = pinned->tiles ? product.candidates(1).front() : pinned->algorithm;
    return {std::move(product), algorithm, pinned->tiles};
  }
  const AlgorithmBytes first = product.candidates(1).front();
  note({.shape = shape, .algorithm = first, .description = describe_algorithm(first)});
  return {std::move(product), first};
}

struct Plans {
  std::uint64_t generation = 0;
  std::map<std::tuple<ProductShape, std::int64_t, bool>, Plan> plans;  // the last: or_tiles
};

// Training has a few dozen shapes; a caller whose shapes never repeat must not grow memory without bound.
constexpr std::size_t kKept = 1024;

}  // namespace

void cublaslt_product(const Stream& stream, const Product& p, bool or_tiles, void* workspace,
                      std::int64_t workspace_bytes) {
  check(alignment_of(workspace) == 256, "matmul: the workspace at {} is aligned to {} bytes; it must be to 256",
        workspace, alignment_of(workspace));
  thread_local std::map<int, Plans> devices;
  Plans& here = devices[device_index()];
  const std::uint64_t generation = pinned_generation();
  if (here.generation != generation || here.plans.size() >= kKept) here.plans.clear();
  here.generation = generation;
  const std::tuple key(shape_of(p), workspace_bytes, or_tiles);
  auto it = here.plans.find(key);
  if (it == here.plans.end()) it = here.plans.emplace(key, make(p, std::get<0>(key), workspace_bytes, or_tiles)).first;
  const Plan& plan = it->second;
  if (plan.tiles) return tiles_product(stream, p, *plan.tiles);
  plan.product.run(stream, p, plan.algorithm, workspace);
}

}  // namespace mylos::kernels::detail
