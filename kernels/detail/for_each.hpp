// Element-wise kernels over rows x columns, from one functor for CPU and GPU.
//
//   struct Add {
//     const float* a; const float* b; float* sum; std::int64_t width;
//     template <int W>
//     KOKKOS_FUNCTION void at(std::int64_t row, std::int64_t column) const { ... W elements from (row, column) ... }
//   };
//   for_each<8>(exec, "mylos::add::forward", rows, columns, vector, Add{...});
//
// W is 8 (the argument) where `vector` says that addresses are aligned, and 1 elsewhere. On a GPU neighbouring threads
// take neighbouring packs; on a CPU a thread takes a block and the compiler vectorises the loop over at<1>. An
// `enter()` of the functor, when there is one, runs before the elements; false skips them.
#pragma once

#include <algorithm>

#include "kernels/detail/pack.hpp"

namespace mylos::kernels {

// a / b for a >= 0, b > 0. On a GPU a 64-bit division costs as much as a memory access; most launches do with 32 bits.
MYLOS_FUNCTION std::int64_t quotient(std::int64_t a, std::int64_t b) {
#if defined(__CUDA_ARCH__)
  if (((a | b) >> 32) == 0) return std::uint32_t(a) / std::uint32_t(b);
#endif
  return a / b;
}

namespace detail {

template <class Op>
MYLOS_FUNCTION bool enter(Op& op) {
  if constexpr (requires { op.enter(); }) {
    return op.enter();
  } else {
    return true;
  }
}

template <int W, class Op>
struct GpuForEach {
  Op op;
  std::int64_t rows, columns, packs, items_per_row;  // a row is `packs` packs and then single elements

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    Op local = op;
    if (!enter(local)) return;
    std::int64_t row = 0, i = item;
    if (rows > 1) {
      row = quotient(item, items_per_row);
      i = item - row * items_per_row;
    }
    if (i < packs) {
      local.template at<W>(row, i * W);
    } else {
      local.template at<1>(row, packs * W + (i - packs));
    }
  }
};

template <class Op>
struct CpuForEach {
  Op op;
  std::int64_t rows, columns, rows_per_task, columns_per_task, tasks_across;

  void operator()(std::int64_t task) const {
    Op local = op;
    if (!enter(local)) return;
    const std::int64_t first_row = task / tasks_across * rows_per_task, first = task % tasks_across * columns_per_task;
    const std::int64_t end_row = std::min(rows, first_row + rows_per_task),
                       end = std::min(columns, first + columns_per_task);
    for (std::int64_t row = first_row; row < end_row; ++row) {
      MYLOS_SIMD
      for (std::int64_t c = first; c < end; ++c) local.template at<1>(row, c);
    }
  }
};

}  // namespace detail

template <int W, class Op>
void for_each(const Exec& exec, const char* label, std::int64_t rows, std::int64_t columns, bool vector, const Op& op) {
  if (rows == 0 || columns == 0) return;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  if constexpr (kOnGpu) {
    const std::int64_t packs = vector ? columns / W : 0, items = packs + (columns - packs * W);
    Kokkos::parallel_for(label, Policy(exec, 0, rows * items),
                         detail::GpuForEach<W, Op>{op, rows, columns, packs, items});
  } else {
    constexpr std::int64_t kTask = 8192;  // elements: some 10 us of work, and its operands stay in the L2 cache
    const std::int64_t across = std::min(columns, kTask), down = std::max<std::int64_t>(1, kTask / columns);
    const std::int64_t tasks_across = (columns + across - 1) / across, tasks_down = (rows + down - 1) / down;
    Kokkos::parallel_for(label, Policy(exec, 0, tasks_across * tasks_down),
                         detail::CpuForEach<Op>{op, rows, columns, down, across, tasks_across});
  }
}

// Dense tensors of n elements.
template <int W, class Op>
void for_each(const Exec& exec, const char* label, std::int64_t n, bool vector, const Op& op) {
  for_each<W>(exec, label, 1, n, vector, op);
}

}  // namespace mylos::kernels
