#include "tensor/dtype.hpp"

#include <array>

#include "base/error.hpp"

namespace mylos {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::int64_t size;
};
constexpr std::array kEntries{
    Entry{DType::f32, "f32", 4}, Entry{DType::bf16, "bf16", 2}, Entry{DType::f64, "f64", 8},
    Entry{DType::i32, "i32", 4}, Entry{DType::i64, "i64", 8},   Entry{DType::u8, "u8", 1},
    Entry{DType::u16, "u16", 2}, Entry{DType::u32, "u32", 4},
};
static_assert([] {
  for (std::size_t i = 0; i < kEntries.size(); ++i)
    if (std::size_t(kEntries[i].dtype) != i) return false;
  return true;
}());

}  // namespace

std::int64_t size_of(DType dtype) { return kEntries[std::size_t(dtype)].size; }

std::string_view name_of(DType dtype) { return kEntries[std::size_t(dtype)].name; }

DType dtype_of(std::string_view name) {
  for (const Entry& e : kEntries)
    if (e.name == name) return e.dtype;
  fail("'{}' is not a dtype; the known ones are f32, bf16, f64, i32, i64, u8, u16, u32", name);
}

}  // namespace mylos
