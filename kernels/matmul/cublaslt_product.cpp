// The products of the op through cuBLASLt: a plan is made when a shape comes for the first time, and kept.
#include <map>

#include "base/error.hpp"
#include "kernels/matmul/cublaslt.hpp"
#include "kernels/matmul/product_table.hpp"

namespace mylos::kernels::detail {
namespace {

struct Plan {
  LtProduct product;
  AlgorithmBytes algorithm;
};

Plan make(const ProductShape& shape, std::int64_t workspace_bytes) {
  LtProduct product(shape, workspace_bytes);
  if (const auto pinned = pinned_product(shape)) {
    const std::string refusal = product.refusal(pinned->algorithm);
    check(refusal.empty(),
          "matmul: cuBLASLt refuses the tuned algorithm of {} ({}): {}; run 'mylos tune' again, or set "
          "train.products=\"heuristic\"",
          describe(shape), pinned->description, refusal);
    note_product(*pinned);
    return {std::move(product), pinned->algorithm};
  }
  const AlgorithmBytes first = product.candidates(1).front();
  note_product({.shape = shape, .algorithm = first, .description = describe_algorithm(first)});
  return {std::move(product), first};
}

struct Plans {
  std::uint64_t generation = 0;
  std::map<std::pair<ProductShape, std::int64_t>, Plan> plans;
};

// Training has a few dozen shapes; a caller whose shapes never repeat must not grow memory without bound.
constexpr std::size_t kKept = 1024;

}  // namespace

void cublaslt_product(const Stream& stream, const Product& p, void* workspace, std::int64_t workspace_bytes) {
  check(alignment_of(workspace) == 256, "matmul: the workspace at {} is aligned to {} bytes; it must be to 256",
        workspace, alignment_of(workspace));
  thread_local std::map<int, Plans> devices;
  Plans& here = devices[device_index()];
  const std::uint64_t generation = pinned_generation();
  if (here.generation != generation || here.plans.size() >= kKept) here.plans.clear();
  here.generation = generation;
  const std::pair key(shape_of(p), workspace_bytes);
  auto it = here.plans.find(key);
  if (it == here.plans.end()) it = here.plans.emplace(key, make(key.first, workspace_bytes)).first;
  it->second.product.run(stream, p, it->second.algorithm, workspace);
}

}  // namespace mylos::kernels::detail
