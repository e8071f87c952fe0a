// Element types of tensors, their names ("f32") and sizes.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/bf16.hpp"

namespace mylos {

enum class DType : std::uint8_t { f32, bf16, f64, i32, i64, u8, u16, u32 };

std::int64_t size_of(DType dtype);
std::string_view name_of(DType dtype);
DType dtype_of(std::string_view name);  // throws Error that lists the known names

template <class T>
constexpr DType dtype_v = [] {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return DType::u16;
  else {
    static_assert(std::is_same_v<T, std::uint32_t>, "no dtype for this type");
    return DType::u32;
  }
}();

}  // namespace mylos
