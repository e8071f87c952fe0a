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

#include <bit>
#include <cstdint>
#include <cstring>
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
    Pack<T, n> piece;
#if defined(__CUDA_ARCH__)
    piece = reinterpret_cast<const Pack<T, n>*>(p)[j];
#else
    std::memcpy(&piece, p + j * n, sizeof piece);  // a cast would break C++'s rules on aliases
#endif
    for (int k = 0; k < n; ++k) out[j * n + k] = piece.v[k];
  }
}
template <int W, class T>
MYLOS_FUNCTION void store_raw(T* p, const T (&in)[W]) {
  constexpr int n = detail::kPiece<T, W>;
  for (int j = 0; j < W / n; ++j) {
    Pack<T, n> piece;
    for (int k = 0; k < n; ++k) piece.v[k] = in[j * n + k];
#if defined(__CUDA_ARCH__)
    reinterpret_cast<Pack<T, n>*>(p)[j] = piece;
#else
    std::memcpy(p + j * n, &piece, sizeof piece);
#endif
  }
}

// W elements as they lie in memory, in as few registers: two bf16 share one.
template <int W, class T>
struct Words {
  static_assert(W * sizeof(T) % 4 == 0);
  static constexpr int kCount = int(W * sizeof(T) / 4);
  std::uint32_t v[kCount];
};
// One element is its value: compilers vectorise loops over floats, but not the copies of a bf16.
template <class T>
struct Words<1, T> {
  static constexpr int kCount = 0;
  float v;
};

template <int W, class T>
MYLOS_FUNCTION Words<W, T> load_words(const T* p) {
  Words<W, T> r;
  if constexpr (Words<W, T>::kCount == 0) {
    r.v = float(*p);
  } else {
#if defined(__CUDA_ARCH__)
    load_raw<Words<W, T>::kCount>(reinterpret_cast<const std::uint32_t*>(p), r.v);
#else
    std::memcpy(r.v, p, sizeof r.v);
#endif
  }
  return r;
}
template <int W, class T>
MYLOS_FUNCTION void store_words(T* p, const Words<W, T>& x) {
  if constexpr (Words<W, T>::kCount == 0) {
    *p = T(x.v);
  } else {
#if defined(__CUDA_ARCH__)
    store_raw<Words<W, T>::kCount>(reinterpret_cast<std::uint32_t*>(p), x.v);
#else
    std::memcpy(p, x.v, sizeof x.v);
#endif
  }
}

template <int W, class T>
MYLOS_FUNCTION Floats<W> to_floats(const Words<W, T>& x) {
  Floats<W> r;
  if constexpr (Words<W, T>::kCount == 0) {
    r.v[0] = x.v;
  } else if constexpr (sizeof(T) == 2) {
    for (int k = 0; k < W / 2; ++k) {
      r.v[2 * k] = std::bit_cast<float>(x.v[k] << 16);
      r.v[2 * k + 1] = std::bit_cast<float>(x.v[k] & 0xffff0000u);
    }
  } else {
    for (int k = 0; k < W; ++k) r.v[k] = std::bit_cast<float>(x.v[k]);
  }
  return r;
}
template <class T, int W>
MYLOS_FUNCTION Words<W, T> to_words(const Floats<W>& x) {
  Words<W, T> r;
  if constexpr (Words<W, T>::kCount == 0) {
    r.v = float(T(x.v[0]));
  } else if constexpr (sizeof(T) == 2) {
    for (int k = 0; k < W / 2; ++k) {
#if defined(__CUDA_ARCH__)
      const __nv_bfloat162_raw pair = __floats2bfloat162_rn(x.v[2 * k], x.v[2 * k + 1]);  // one instruction
      r.v[k] = pair.x | std::uint32_t(pair.y) << 16;
#else
      r.v[k] = bf16::round_to_nearest(x.v[2 * k]) | std::uint32_t(bf16::round_to_nearest(x.v[2 * k + 1])) << 16;
#endif
    }
  } else {
    for (int k = 0; k < W; ++k) r.v[k] = std::bit_cast<std::uint32_t>(x.v[k]);
  }
  return r;
}

template <int W, class T>
MYLOS_FUNCTION Floats<W> load(const T* p) {
  if constexpr (W == 1) {
    return {{float(*p)}};
  } else {
    return to_floats(load_words<W>(p));
  }
}

template <int W, class T>
MYLOS_FUNCTION void store(T* p, const Floats<W>& x) {
  if constexpr (W == 1) {
    *p = T(x.v[0]);
  } else {
    store_words(p, to_words<T>(x));
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
