#include "kernels/matmul/tuning.hpp"

#include "base/error.hpp"
#include "kernels/matmul/providers.hpp"
#if defined(MYLOS_CUBLASLT)
#include "kernels/matmul/cublaslt.hpp"
#endif

namespace mylos::kernels {

#if defined(MYLOS_CUBLASLT)

ProductLibrary product_library() { return {device_info().name, detail::cublaslt_version()}; }

std::vector<TunedProduct> tune(std::span<const ProductShape> shapes, const TuneOptions& options) {
  check(options.candidates >= 1 && options.candidates <= 64, "tune: {} candidates; take 1 to 64", options.candidates);
  check(options.seconds > 0 && options.seconds <= 86400, "tune: {} seconds; take more than 0, at most 86400",
        options.seconds);
  return detail::cublaslt_tune(shapes, options);
}

#else

ProductLibrary product_library() { return {device_info().name, 0}; }

std::vector<TunedProduct> tune(std::span<const ProductShape>, const TuneOptions&) {
  fail("tune: products on {} ({}) have no algorithms to choose from; only the CUDA variant has, by cuBLASLt",
       device_info().name, device_info().backend);
}

#endif

}  // namespace mylos::kernels
