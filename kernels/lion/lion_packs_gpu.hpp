// Lion on a GPU: two packs a thread, all of whose operands are on their way before any of them is used. Not for use outside
// this folder.
#pragma once

#include "kernels/optimizer/flat_update.hpp"

namespace mylos::kernels::device {

// Whether a thread's registers hold two packs: 12 words each, not more.
template <Weights kind, class G, class M, class P = typename FlatUpdate<kind, G>::P>
inline constexpr bool two_packs_fit = flat_width<P, G, M>*(sizeof(P) + sizeof(G) + sizeof(M) +
                                                           (kind == Weights::bf16_split ? 2 : 0)) <= 12 * 4;

// 8 or 16 bytes at a time, now: ptxas moves other loads down to where the value is needed, one pack after the other.
template <int W, class T>
MYLOS_FUNCTION Words<W, T> load_words_now(const T* p) {
#if defined(__CUDA_ARCH__)
  constexpr int kCount = Words<W, T>::kCount;
  static_assert(kCount == 2 || kCount % 4 == 0);
  Words<W, T> r;
  if constexpr (kCount == 2) {
    asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(r.v[0]), "=r"(r.v[1]) : "l"(p));
  } else {
    for (int k = 0; k < kCount; k += 4)
      asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(r.v[k]), "=r"(r.v[k + 1]), "=r"(r.v[k + 2]), "=r"(r.v[k + 3])
                   : "l"(reinterpret_cast<const std::uint32_t*>(p) + k));
  }
  return r;
#else
  return load_words<W>(p);
#endif
}

// Op: Lion. Packs of a thread are half of the buffer apart; single elements follow.
template <class Op, class G, class M, class P, bool split>
struct LionPacks {
  static constexpr int W = Op::kWidth, kPacks = 2, kThreads = 128;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>, Kokkos::LaunchBounds<kThreads, 8>>;

  Op op;
  std::int64_t packs, items_of_packs;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    Op local = op;
    if (item >= items_of_packs) {
      if (local.enter()) local.template at<1>(0, packs * W + item - items_of_packs);
      return;
    }
    Words<W, G> g[kPacks];
    Words<W, M> m[kPacks];
    Words<W, P> p[kPacks];
    Words<W, std::uint16_t> low[kPacks];
    for (int j = 0; j < kPacks; ++j)
      if (item + j * items_of_packs < packs) {
        const std::int64_t i = (item + j * items_of_packs) * W;
        g[j] = load_words_now<W>(op.u.g + i);
        m[j] = load_words_now<W>(op.m + i);
        p[j] = load_words_now<W>(op.u.p + i);
        if constexpr (split) low[j] = load_words_now<W>(op.u.low + i);
      }
    if (!local.enter()) return;
    for (int j = 0; j < kPacks; ++j)
      if (item + j * items_of_packs < packs)
        local.update((item + j * items_of_packs) * W, to_floats(g[j]), to_floats(m[j]), weight(p[j], low[j]));
  }

 private:
  static MYLOS_FUNCTION Floats<W> weight(const Words<W, P>& p, [[maybe_unused]] const Words<W, std::uint16_t>& low) {
    if constexpr (!split) {
      return to_floats(p);
    } else {
      Floats<W> x;
      for (int k = 0; k < W; ++k) {
        const int shift = k % 2 * 16;
        x.v[k] = std::bit_cast<float>(
            join(bf16::from_bits(std::uint16_t(p.v[k / 2] >> shift)), std::uint16_t(low.v[k / 2] >> shift)));
      }
      return x;
    }
  }
};

template <template <Weights, class, class> class Op, Weights kind, class G, class M>
void launch_packs(const Exec& exec, const char* label, std::int64_t n, const Op<kind, G, M>& op) {
  using Packs = LionPacks<Op<kind, G, M>, G, M, typename Op<kind, G, M>::P, kind == Weights::bf16_split>;
  const std::int64_t packs = n / Packs::W, items = (packs + Packs::kPacks - 1) / Packs::kPacks;
  Kokkos::parallel_for(label, typename Packs::Policy(exec, 0, items + (n - packs * Packs::W)), Packs{op, packs, items});
}

}  // namespace mylos::kernels::device
