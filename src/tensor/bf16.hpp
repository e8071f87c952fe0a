// bfloat16 as storage: the upper half of an fp32 number, rounded to nearest even. Arithmetic is done in fp32.
// Kokkos' own bhalf_t is a 4-byte float in host builds and so cannot be a storage type.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tensor/function.hpp"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#endif

namespace mylos {

struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  MYLOS_FUNCTION explicit bf16(float value) : bits(round_to_nearest(value)) {}
  MYLOS_FUNCTION explicit operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
  MYLOS_FUNCTION static bf16 from_bits(std::uint16_t b) {
    bf16 r;
    r.bits = b;
    return r;
  }

  MYLOS_FUNCTION static std::uint16_t round_to_nearest(float value) {
#if defined(__CUDA_ARCH__)
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return std::uint16_t((u >> 16) | 0x40u);  // stays a NaN
    return std::uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
  }
};
static_assert(sizeof(bf16) == 2 && std::is_trivially_copyable_v<bf16>);

}  // namespace mylos
