#include <algorithm>

#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/add_rows_gpu.hpp"
#include "kernels/embedding/embedding_device.hpp"
#include "kernels/embedding/gather_rows_gpu.hpp"

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
    std::int64_t e = i;
    while (e < tokens && token_of(order[e]) == token) {
      float block[kCpuTile] = {};
      const std::int64_t end = std::min(tokens, e + TokenGroups::kBlock);
      for (; e < end && token_of(order[e]) == token; ++e) {
        const T* row = dout + position_of(order[e]) * width + first;
        MYLOS_SIMD
        for (std::int64_t c = 0; c < n; ++c) block[c] += float(row[c]);
      }
      MYLOS_SIMD
      for (std::int64_t c = 0; c < n; ++c) sums[c] += block[c];
    }
    D* to = dtable + token * width + first;
    MYLOS_SIMD
    for (std::int64_t c = 0; c < n; ++c) to[c] = D(float(to[c]) + sums[c]);
  }
};

// Floats for the sums of blocks.
std::int64_t sums_on_gpu(std::int64_t tokens, std::int64_t width) {
  return TokenGroups::slots_for(tokens) * columns_of_sums(width);
}

template <class T, class D>
void scatter_on_gpu(const Stream& stream, const Tensor& groups, const Tensor& dout, const Tensor& workspace,
                    const Tensor& dtable) {
  const std::int64_t n = dout.extent(0);
  float* const sums = static_cast<float*>(static_cast<void*>(workspace.data()));
  const TokenGroups by(groups.data(), n, dtable.extent(0));
  constexpr int W = pack_width<T, D>;
  if (rows_aligned(dout) && rows_aligned(dtable) && dtable.extent(1) % W == 0)
    add_rows<T, D, W>(exec_of(stream), by, n, dout, sums, dtable);
  else
    add_rows<T, D, 1>(exec_of(stream), by, n, dout, sums, dtable);
}

template <class T, class D>
void scatter_on_cpu(const Stream& stream, const Tensor& groups, const Tensor& dout, const Tensor& dtable) {
  const std::int64_t n = dout.extent(0), width = dtable.extent(1), tiles = (width + kCpuTile - 1) / kCpuTile;
  const std::uint64_t* order = static_cast<const std::uint64_t*>(static_cast<const void*>(groups.data()));
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

std::int64_t embedding_group_bytes(std::int64_t tokens, std::int64_t vocabulary) {
  if constexpr (kOnGpu) return TokenGroups::bytes(tokens);
  return std::int64_t(sizeof(std::uint64_t)) * (tokens + vocabulary + 1);
}

void embedding_group([[maybe_unused]] const Stream& stream, const Tensor& tokens, std::int64_t vocabulary,
                     const Tensor& groups) {
  const std::int64_t n = tokens.extent(0);
  if (n == 0) return;
  if constexpr (kOnGpu) {
    group_tokens(stream, tokens, vocabulary, TokenGroups(groups.data(), n, vocabulary));
  } else {
    sort_tokens(tokens, vocabulary, static_cast<std::uint64_t*>(static_cast<void*>(groups.data())));
  }
}

std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t width) {
  return kOnGpu ? sums_on_gpu(tokens, width) * std::int64_t(sizeof(float)) : 0;
}

void embedding_backward(const Stream& stream, const Tensor& groups, const Tensor& dout,
                        [[maybe_unused]] const Tensor& workspace, const Tensor& dtable) {
  if (dout.extent(0) == 0 || dtable.extent(1) == 0) return;
  with_float_type(dout.dtype(), [&](auto type) {
    with_float_type(dtable.dtype(), [&](auto table_type) {
      using T = decltype(type);
      using D = decltype(table_type);
      if constexpr (kOnGpu) {
        scatter_on_gpu<T, D>(stream, groups, dout, workspace, dtable);
      } else {
        scatter_on_cpu<T, D>(stream, groups, dout, dtable);
      }
    });
  });
}

}  // namespace mylos::kernels::device
