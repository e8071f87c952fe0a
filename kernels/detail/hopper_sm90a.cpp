#include "kernels/detail/hopper.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "kernels/detail/hopper_ring.hpp"

namespace mylos::kernels::hopper {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// From the driver itself, so that nothing is linked against it: a build runs where there is none.
Encode encoder() {
  static const Encode found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check_launch(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result),
        "cuTensorMapEncodeTiled");
    check_plain(result == cudaDriverEntryPointSuccess,
                "the driver has no cuTensorMapEncodeTiled; kernels for Hopper need one for CUDA 12");
    return reinterpret_cast<Encode>(function);
  }();
  return found;
}

}  // namespace

void check_launch(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    fail_plain(std::string("a kernel for Hopper, ") + what + ": " + cudaGetErrorString(status));
}

CUtensorMap map_of(void* data, std::span<const std::int64_t> extents, std::span<const std::int64_t> strides,
                   std::span<const int> box) {
  constexpr std::size_t kMost = 5;
  const std::size_t rank = extents.size();
  check_plain(rank >= 2 && rank <= kMost && strides.size() == rank - 1 && box.size() <= rank,
              "a map wants 2 to 5 extents, one stride less, and no more sides of a box");
  CUtensorMap map{};
  std::array<cuuint64_t, kMost> sizes{}, bytes{};
  std::array<cuuint32_t, kMost> sides{1, 1, 1, 1, 1}, steps{1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < rank; ++i) sizes[i] = cuuint64_t(extents[i]);
  for (std::size_t i = 0; i + 1 < rank; ++i) bytes[i] = cuuint64_t(strides[i]) * 2;
  for (std::size_t i = 0; i < box.size(); ++i) sides[i] = cuuint32_t(box[i]);
  const CUresult result =
      encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, cuuint32_t(rank), data, sizes.data(), bytes.data(),
                sides.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail_plain("cuTensorMapEncodeTiled refused a tensor with status " + std::to_string(int(result)));
  return map;
}

int resident_clusters(const void* kernel, int threads, int scratch) {
  check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, scratch), "shared memory");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = {2, 1, 1};
  config.blockDim = {unsigned(threads), 1, 1};
  config.dynamicSmemBytes = std::size_t(scratch);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int most = 0;
  check_launch(cudaOccupancyMaxActiveClusters(&most, kernel, &config), "clusters");
  return std::max(most, 1);
}

// Code for another architecture, or a card of another, has no such instructions.
bool is_hopper() {
#if defined(MYLOS_SM90A)
  static const bool is = [] {
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
           minor == 0;
  }();
  return is;
#else
  return false;
#endif
}

}  // namespace mylos::kernels::hopper
