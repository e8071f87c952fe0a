// Loads and stores of W neighbouring elements as fp32, in 16-byte accesses where W allows it.
//
//   constexpr int W = pack_width<bf16, float>;      // 8 when a bf16 takes part, else 4
//   Floats<W> x = load<W>(p + i);                   // p + i must be aligned to 16 bytes when W > 1
//   store(y + i, x);                                // rounds to nearest even for bf16
//
// W = 1 is the path for anything unaligned, and what CPU loops use: the compiler vectorises the loop around it.
// Only files that see Kokkos include this.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

#include "tensor/bf16.hpp"
#include "tensor/detail/exec.hpp"
#include "tensor/tensor.hpp"

// Says that the iterations of the next CPU loop are independent. nvcc compiles these loops for no one.
#if defined(__CUDACC__)
#define MYLOS_SIMD
#else
#define MYLOS_SIMD _Pragma("omp simd")
#endif

namespace mylos::kernels {

// As the W of the loops below: at(Width<8>{}, i).
template <int W>
using Width = std::integral_constant<int, W>;

template <class... T>
inline constexpr int pack_width = (... || (sizeof(T) == 2)) ? 8 : 4;

template <class T, int W>
struct alignas(sizeof(T) * W) Pack {
  T v[W];
};

template <int W>
struct Floats {
  float v[W];
};

namespace detail {
template <class T, int W>
inline constexpr int kPiece = W * sizeof(T) > 16 ? int(16 / sizeof(T)) : W;
}

// W elements as they are.
template <int W, class T>
MYLOS_FUNCTION void load_raw(const T* p, T (&out)[W]) {
  constexpr int n = detail::kPiece<T, W>;
  for (int j = 0; j < W / n; ++j) {
    const Pack<T, n> piece = reinterpret_cast<const Pack<T, n>*>(p)[j];
    for (int k = 0; k < n; ++k) out[j * n + k] = piece.v[k];
  }
}
template <int W, class T>
MYLOS_FUNCTION void store_raw(T* p, const T (&in)[W]) {
  constexpr int n = detail::kPiece<T, W>;
  for (int j = 0; j < W / n; ++j) {
    Pack<T, n> piece;
    for (int k = 0; k < n; ++k) piece.v[k] = in[j * n + k];
    reinterpret_cast<Pack<T, n>*>(p)[j] = piece;
  }
}

template <int W, class T>
MYLOS_FUNCTION Floats<W> load(const T* p) {
  Floats<W> r;
  if constexpr (W == 1) {
    r.v[0] = float(*p);
  } else {
    T raw[W];
    load_raw<W>(p, raw);
    for (int k = 0; k < W; ++k) r.v[k] = float(raw[k]);
  }
  return r;
}

template <int W, class T>
MYLOS_FUNCTION void store(T* p, const Floats<W>& x) {
  if constexpr (W == 1) {
    *p = T(x.v[0]);
  } else {
    T raw[W];
    for (int k = 0; k < W; ++k) raw[k] = T(x.v[k]);
    store_raw<W>(p, raw);
  }
}

// The value that storage in T leaves of x.
template <class T>
MYLOS_FUNCTION float rounded_to(float x) {
  return float(T(x));
}

inline bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// Whether every row of t starts at a multiple of 16 bytes (none counts as aligned).
inline bool rows_aligned(const Tensor& t) {
  if (!t) return true;
  bool ok = is_aligned(t.data());
  for (int d = 0; d + 1 < t.rank(); ++d) ok = ok && t.stride(d) * size_of(t.dtype()) % 16 == 0;
  return ok;
}

// Calls f(T{}) with the element type of an f32 or bf16 tensor; the host file has checked that it is one of them.
template <class F>
void with_float_type(DType dtype, const F& f) {
  if (dtype == DType::f32) {
    f(float{});
  } else {
    f(bf16{});
  }
}

}  // namespace mylos::kernels
