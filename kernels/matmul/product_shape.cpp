#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/matmul/providers.hpp"
#include "kernels/matmul/tuning.hpp"

namespace mylos::kernels {

std::string describe(const ProductShape& s) {
  const auto operand = [](std::int64_t rows, std::int64_t columns, bool transposed) {
    return transposed ? fmt::format("[{}, {}]ᵀ", columns, rows) : fmt::format("[{}, {}]", rows, columns);
  };
  return fmt::format("{} {} x {}{} -> {}", name_of(s.in), operand(s.m, s.l, s.transpose_a),
                     operand(s.l, s.n, s.transpose_b), s.adds ? " + C" : "", name_of(s.out));
}

double flops_of(const ProductShape& s) { return 2.0 * double(s.m) * double(s.n) * double(s.l); }

namespace detail {

std::int64_t alignment_of(const void* p) {
  const auto address = std::bit_cast<std::uintptr_t>(p);
  return address == 0 ? 256 : std::int64_t(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

ProductShape shape_of(const Product& p) {
  const bool adds = p.beta != 0.0f;
  const StoredMatrix& z = adds ? p.z : p.c;
  return {.m = p.m,
          .n = p.n,
          .l = p.l,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .in = p.in,
          .out = p.out,
          .adds = adds,
          .stride = {p.a.stride, p.b.stride, p.c.stride, z.stride},
          .alignment = {alignment_of(p.a.data), alignment_of(p.b.data), alignment_of(p.c.data), alignment_of(z.data)}};
}

}  // namespace detail
}  // namespace mylos::kernels
