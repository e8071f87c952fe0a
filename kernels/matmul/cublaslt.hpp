// One kind of product as cuBLASLt sees it: its descriptors, the algorithms it may run with, and a launch. CUDA only.
//
// Belongs to the thread and device that made it. run() neither allocates nor synchronises: a stream may be captured once
// an algorithm has run, which loads its code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul/batched.hpp"
#include "kernels/matmul/providers.hpp"
#include "kernels/matmul/tuning.hpp"

namespace mylos::kernels::detail {

class LtProduct {
 public:
  LtProduct(const ProductShape& shape, std::int64_t workspace_bytes, const Batch& batch = {});
  ~LtProduct();
  LtProduct(LtProduct&&) noexcept;
  LtProduct& operator=(LtProduct&&) noexcept;

  // As the library ranks them, at least one. None rounds a partial sum to bf16.
  std::vector<AlgorithmBytes> candidates(int most) const;
  // Why an algorithm cannot be used here; empty: it can.
  std::string refusal(const AlgorithmBytes& algorithm) const;
  // p must be of this shape.
  void run(const Stream& stream, const Product& p, const AlgorithmBytes& algorithm, void* workspace) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string describe_algorithm(const AlgorithmBytes& algorithm);
std::int64_t cublaslt_version();

// The tuner behind tune(), for a library with algorithms to choose.
std::vector<TunedProduct> cublaslt_tune(std::span<const ProductShape> shapes, const TuneOptions& options);

}  // namespace mylos::kernels::detail
