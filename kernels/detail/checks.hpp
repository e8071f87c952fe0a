// Checks that the host files of several ops share; each message names op, operand and what was found.
#pragma once

#include "base/error.hpp"
#include "tensor/tensor.hpp"

namespace mylos::kernels {

inline void expect_float(const char* op, const char* name, const Tensor& t) {
  check(t && (t.dtype() == DType::f32 || t.dtype() == DType::bf16), "{}: {} is {}; it must be f32 or bf16", op, name,
        t.describe());
}

// t has the shape of `like`.
inline void expect_same_shape(const char* op, const char* name, const Tensor& t, const Tensor& like) {
  bool ok = t.rank() == like.rank();
  for (int d = 0; ok && d < t.rank(); ++d) ok = t.extent(d) == like.extent(d);
  check(ok, "{}: {} is {}, expected the shape of {}", op, name, t.describe(), like.describe());
}

// Bytes of an op's own: a workspace, or what one op leaves for another.
inline void expect_workspace(const char* op, const Tensor& workspace, std::int64_t bytes,
                             const char* name = "workspace") {
  check(
      bytes == 0 || (workspace && workspace.dtype() == DType::u8 && workspace.is_dense() && workspace.bytes() >= bytes),
      "{}: {} is {}; it needs u8[{}]", op, name, workspace.describe(), bytes);
  check(bytes == 0 || reinterpret_cast<std::uintptr_t>(workspace.data()) % 16 == 0, "{}: {} is not aligned to 16 bytes",
        op, name);
}

}  // namespace mylos::kernels
