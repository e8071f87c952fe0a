// Batches of products through cuBLASLt: a plan is made when a kind of batch comes for the first time, and kept.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "kernels/matmul/cublaslt.hpp"

namespace mylos::kernels::detail {
namespace {

struct Plan {
  LtProduct product;
  AlgorithmBytes algorithm;
};

using Steps = std::array<std::int64_t, 5>;
using Key = std::tuple<ProductShape, Steps, std::int64_t>;

constexpr std::size_t kKept = 256;  // as of single products: no growth without bound

// What divides the addresses of all matrices of a batch.
std::int64_t alignment_of_all(std::int64_t first, std::int64_t step, DType dtype) {
  const std::int64_t bytes = step * size_of(dtype);
  return bytes == 0 ? first : std::min(first, bytes & -bytes);
}

}  // namespace

void cublaslt_batched(const Stream& stream, const Product& p, const Batch& batch, void* workspace,
                      std::int64_t workspace_bytes) {
  check(alignment_of(workspace) == 256, "matmul: the workspace at {} is aligned to {} bytes; it must be to 256",
        workspace, alignment_of(workspace));
  ProductShape shape = shape_of(p);
  const bool own_addend = shape.adds && p.z.data != p.c.data;
  const Steps steps{batch.count, batch.a, batch.b, batch.c, own_addend ? batch.z : batch.c};
  const std::array<DType, 4> types{p.in, p.in, p.out, p.out};
  for (std::size_t i = 0; i < 4; ++i) shape.alignment[i] = alignment_of_all(shape.alignment[i], steps[i + 1], types[i]);
  thread_local std::map<int, std::map<Key, Plan>> devices;
  std::map<Key, Plan>& plans = devices[device_index()];
  const Key key{shape, steps, workspace_bytes};
  auto it = plans.find(key);
  if (it == plans.end()) {
    if (plans.size() >= kKept) plans.clear();
    LtProduct product(shape, workspace_bytes, {steps[0], steps[1], steps[2], steps[3], steps[4]});
    const AlgorithmBytes first = product.candidates(1).front();
    it = plans.emplace(key, Plan{std::move(product), first}).first;
  }
  it->second.product.run(stream, p, it->second.algorithm, workspace);
}

}  // namespace mylos::kernels::detail
