// Tensors with memory of their own, for trials by hand.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/random/random.hpp"
#include "tensor/runtime.hpp"

namespace mylos::bench {

struct Owned {
  Buffer buffer;
  Tensor tensor;
};

inline Owned empty(DType dtype, std::initializer_list<std::int64_t> extents) {
  Owned r;
  r.buffer = Buffer(Tensor(nullptr, dtype, extents).bytes(), "bench");
  r.tensor = Tensor(r.buffer.data(), dtype, extents);
  return r;
}

// Normal numbers, never zeros: a GPU draws less power on zeros and runs faster.
inline Owned normal(const Stream& stream, DType dtype, std::initializer_list<std::int64_t> extents, float std_dev,
                    std::uint64_t seed) {
  Owned r = empty(dtype, extents);
  kernels::random_normal(stream, seed, 0, std_dev, r.tensor);
  return r;
}

}  // namespace mylos::bench
