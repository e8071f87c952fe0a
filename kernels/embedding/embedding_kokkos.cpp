#include <algorithm>

#include "kernels/detail/for_each.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels::device {
namespace {

[[maybe_unused]] constexpr std::int64_t kCpuTile = 256;  // columns whose sums are kept on the stack
[[maybe_unused]] constexpr int kGpuTeam = 64;

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

MYLOS_FUNCTION std::int64_t token_of(std::uint64_t key) { return std::int64_t(key >> 32); }
MYLOS_FUNCTION std::int64_t position_of(std::uint64_t key) { return std::int64_t(key & 0xffffffffu); }

// Adds to one row of dtable all rows of dout of its token. Work item i of the sorted positions does so when it is the
// first of its token; the others have nothing to do.
template <class T, class D>
struct Scatter {
  const std::uint64_t* order;
  const T* dout;
  D* dtable;
  std::int64_t tokens, width, tiles;

  MYLOS_FUNCTION bool is_first(std::int64_t i) const { return i == 0 || token_of(order[i - 1]) != token_of(order[i]); }

  // On a CPU: item = (i, tile).
  void operator()(std::int64_t item) const {
    const std::int64_t i = item / tiles, first = item % tiles * kCpuTile, n = std::min(kCpuTile, width - first);
    if (!is_first(i)) return;
    const std::int64_t token = token_of(order[i]);
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

// On a GPU: a team has (i, tile), each thread W columns; kAhead rows are under way at a time, added in order. Most tokens
// occur once or twice, a few hundreds of times: the first two come by themselves.
template <class T, class D, int W>
struct ScatterTeam {
  Scatter<T, D> s;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t i = quotient(member.league_rank(), s.tiles), tile = member.league_rank() - i * s.tiles;
    const std::int64_t c = (tile * kGpuTeam + member.team_rank()) * W;
    if (c >= s.width || !s.is_first(i)) return;
    D* to = s.dtable + token_of(s.order[i]) * s.width + c;
    const Words<W, D> before = load_words<W>(to);
    Floats<W> sums{};
    if (add_rows<2>(i, i, c, sums))
      for (std::int64_t e = i + 2; add_rows<kAhead>(i, e, c, sums); e += kAhead) continue;
    Floats<W> total = to_floats(before);
    for (int k = 0; k < W; ++k) total.v[k] += sums.v[k];
    store(to, total);
  }

 private:
  static constexpr int kAhead = 8;

  // Adds the n rows at e as far as they are of the token at i; whether there may be more.
  template <int n>
  KOKKOS_FUNCTION bool add_rows(std::int64_t i, std::int64_t e, std::int64_t c, Floats<W>& sums) const {
    const std::int64_t token = token_of(s.order[i]);
    Words<W, T> row[n];
    bool valid[n];
    for (int j = 0; j < n; ++j) {
      const std::uint64_t key = e + j < s.tokens ? s.order[e + j] : ~std::uint64_t(0);
      valid[j] = token_of(key) == token;
      if (valid[j]) row[j] = load_words<W>(s.dout + position_of(key) * s.width + c);
    }
    for (int j = 0; j < n; ++j) {
      if (!valid[j]) continue;
      const Floats<W> x = to_floats(row[j]);
      for (int k = 0; k < W; ++k) sums.v[k] += x.v[k];
    }
    return valid[n - 1];
  }
};

template <class T, class D, int W>
void scatter_on_gpu(const Exec& exec, Scatter<T, D> s) {
  s.tiles = (s.width / W + kGpuTeam - 1) / kGpuTeam;
  check_plain(s.tokens * s.tiles < (std::int64_t(1) << 31),
              "embedding_backward: tokens times columns/64 must stay below 2^31; split the batch");
  Kokkos::parallel_for("mylos::embedding::backward", TeamPolicy(exec, int(s.tokens * s.tiles), kGpuTeam),
                       ScatterTeam<T, D, W>{s});
}

}  // namespace

void embedding_forward(const Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  with_float_type(table.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t width = table.extent(1);
    for_each<pack_width<T>>(exec_of(stream), "mylos::embedding::forward", tokens.extent(0), width,
                            rows_aligned(table) && rows_aligned(out),
                            Gather<T>{table.as<T>(), tokens.as<std::int32_t>(), out.as<T>(), width});
  });
}

void embedding_backward(const Stream& stream, const Tensor& tokens, const Tensor& dout, const Tensor& workspace,
                        const Tensor& dtable) {
  const std::int64_t n = tokens.extent(0), width = dtable.extent(1);
  if (n == 0 || width == 0) return;
  const Exec& exec = exec_of(stream);
  std::uint64_t* order = static_cast<std::uint64_t*>(static_cast<void*>(workspace.data()));
  sort_tokens(stream, tokens, dtable.extent(0), order);
  with_float_type(dout.dtype(), [&](auto type) {
    with_float_type(dtable.dtype(), [&](auto table_type) {
      using T = decltype(type);
      using D = decltype(table_type);
      Scatter<T, D> s{order, dout.as<T>(), dtable.as<D>(), n, width, 0};
      if constexpr (kOnGpu) {
        constexpr int W = pack_width<T, D>;
        if (rows_aligned(dout) && rows_aligned(dtable) && width % W == 0) {
          scatter_on_gpu<T, D, W>(exec, s);
        } else {
          scatter_on_gpu<T, D, 1>(exec, s);
        }
      } else {
        // Frequent tokens take long: small chunks on demand. Each row is one item's, so the schedule cannot change the
        // sums.
        using Policy = Kokkos::RangePolicy<Exec, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<std::int64_t>>;
        s.tiles = (width + kCpuTile - 1) / kCpuTile;
        Kokkos::parallel_for("mylos::embedding::backward", Policy(exec, 0, n * s.tiles, Kokkos::ChunkSize(16)), s);
      }
    });
  });
}

}  // namespace mylos::kernels::device
