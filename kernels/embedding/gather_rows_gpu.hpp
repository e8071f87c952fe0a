// The embedding on a GPU. Rows of a table lie anywhere, so memory is fast only with many of them under way: a thread has
// several packs of a row, loaded before it stores the first. Not for use outside this folder.
#pragma once

#include "kernels/detail/for_each.hpp"

namespace mylos::kernels::device {

// kPacks packs a thread, neighbouring threads side by side. Whole packs only.
template <class T, int W, int kPacks>
struct GatherRows {
  const T* table;
  const std::int32_t* tokens;
  T* out;
  std::int64_t packs, threads_per_row;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t row = quotient(item, threads_per_row), first = item - row * threads_per_row;
    const T* const from = table + std::int64_t(tokens[row]) * packs * W;
    T* const to = out + row * packs * W;
    Words<W, T> words[kPacks];
    for (int k = 0; k < kPacks; ++k)
      if (first + k * threads_per_row < packs) words[k] = load_words<W>(from + (first + k * threads_per_row) * W);
    for (int k = 0; k < kPacks; ++k)
      if (first + k * threads_per_row < packs) store_words(to + (first + k * threads_per_row) * W, words[k]);
  }
};

template <class T, int kPacks>
void gather_rows(const Exec& exec, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  constexpr int W = pack_width<T>;
  const std::int64_t packs = table.extent(1) / W, threads = (packs + kPacks - 1) / kPacks;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("mylos::embedding::forward", Policy(exec, 0, tokens.extent(0) * threads),
                       GatherRows<T, W, kPacks>{table.as<T>(), tokens.as<std::int32_t>(), out.as<T>(), packs, threads});
}

}  // namespace mylos::kernels::device
