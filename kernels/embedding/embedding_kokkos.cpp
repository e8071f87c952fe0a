#include <algorithm>

#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/embedding_device.hpp"
#include "kernels/embedding/embedding_rows_gpu.hpp"

namespace mylos::kernels::device {
namespace {

[[maybe_unused]] constexpr std::int64_t kCpuTile = 256;  // columns whose sums are kept on the stack

template <class T>
struct Gather {
  const T* table;
  const std::int32_t* tokens;
  T* out;
  std::int64_t width;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t row, std::int64_t c) const {
    T raw[W];
    load_raw<W>(table + std::int64_t(tokens[row]) * width + c, raw);
    store_raw<W>(out + row * width + c, raw);
  }
};

[[maybe_unused]] MYLOS_FUNCTION std::int64_t token_of(std::uint64_t key) { return std::int64_t(key >> 32); }
[[maybe_unused]] MYLOS_FUNCTION std::int64_t position_of(std::uint64_t key) { return std::int64_t(key & 0xffffffffu); }

// On a CPU, item = (i, tile): adds to one row of dtable all rows of dout of its token. Work item i of the sorted positions
// does so when it is the first of its token; the others have nothing to do.
template <class T, class D>
struct Scatter {
  const std::uint64_t* order;
  const T* dout;
  D* dtable;
  std::int64_t tokens, width, tiles;

  void operator()(std::int64_t item) const {
    const std::int64_t i = item / tiles, first = item % tiles * kCpuTile, n = std::min(kCpuTile, width - first);
    const std::int64_t token = token_of(order[i]);
    if (i > 0 && token_of(order[i - 1]) == token) return;
    float sums[kCpuTile] = {};
    for (std::int64_t e = i; e < tokens && token_of(order[e]) == token; ++e) {
      const T* row = dout + position_of(order[e]) * width + first;
      MYLOS_SIMD
      for (std::int64_t c = 0; c < n; ++c) sums[c] += float(row[c]);
    }
    D* to = dtable + token * width + first;
    MYLOS_SIMD
    for (std::int64_t c = 0; c < n; ++c) to[c] = D(float(to[c]) + sums[c]);
  }
};

template <class T, class D>
void scatter_on_gpu(const Stream& stream, const Tensor& tokens, const Tensor& dout, const Tensor& workspace,
                    const Tensor& dtable) {
  const TokenGroups groups(workspace.data(), tokens.extent(0), dtable.extent(0));
  group_tokens(stream, tokens, dtable.extent(0), groups);
  constexpr int W = pack_width<T, D>;
  if (rows_aligned(dout) && rows_aligned(dtable) && dtable.extent(1) % W == 0)
    add_rows<T, D, W>(exec_of(stream), groups, dout, dtable);
  else
    add_rows<T, D, 1>(exec_of(stream), groups, dout, dtable);
}

template <class T, class D>
void scatter_on_cpu(const Stream& stream, const Tensor& tokens, const Tensor& dout, const Tensor& workspace,
                    const Tensor& dtable) {
  const std::int64_t n = tokens.extent(0), width = dtable.extent(1), tiles = (width + kCpuTile - 1) / kCpuTile;
  std::uint64_t* order = static_cast<std::uint64_t*>(static_cast<void*>(workspace.data()));
  sort_tokens(tokens, dtable.extent(0), order);
  // Frequent tokens take long: small chunks on demand. Each row is one item's, so the schedule cannot change the sums.
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("mylos::embedding::backward", Policy(exec_of(stream), 0, n * tiles, Kokkos::ChunkSize(16)),
                       Scatter<T, D>{order, dout.as<T>(), dtable.as<D>(), n, width, tiles});
}

}  // namespace

void embedding_forward(const Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  with_float_type(table.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t width = table.extent(1);
    const bool vector = rows_aligned(table) && rows_aligned(out);
    if constexpr (kOnGpu) {
      if (vector && width % pack_width<T> == 0 && tokens.extent(0) > 0)
        return gather_rows<T, 4>(exec_of(stream), table, tokens, out);
    }
    for_each<pack_width<T>>(exec_of(stream), "mylos::embedding::forward", tokens.extent(0), width, vector,
                            Gather<T>{table.as<T>(), tokens.as<std::int32_t>(), out.as<T>(), width});
  });
}

void embedding_backward(const Stream& stream, const Tensor& tokens, const Tensor& dout, const Tensor& workspace,
                        const Tensor& dtable) {
  if (tokens.extent(0) == 0 || dtable.extent(1) == 0) return;
  with_float_type(dout.dtype(), [&](auto type) {
    with_float_type(dtable.dtype(), [&](auto table_type) {
      using T = decltype(type);
      using D = decltype(table_type);
      if constexpr (kOnGpu) {
        scatter_on_gpu<T, D>(stream, tokens, dout, workspace, dtable);
      } else {
        scatter_on_cpu<T, D>(stream, tokens, dout, workspace, dtable);
      }
    });
  });
}

}  // namespace mylos::kernels::device
