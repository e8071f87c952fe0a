#include <algorithm>

#include "kernels/detail/for_each.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/embedding/embedding_device.hpp"

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

MYLOS_FUNCTION std::int64_t token_of(std::uint64_t key) { return std::int64_t(key >> 32); }
MYLOS_FUNCTION std::int64_t position_of(std::uint64_t key) { return std::int64_t(key & 0xffffffffu); }

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

template <int W>
MYLOS_FUNCTION void add(const Floats<W>& x, Floats<W>& sums) {
  for (int k = 0; k < W; ++k) sums.v[k] += x.v[k];
}

// On a GPU, tokens that occur a few times, which most do: one position of each does the work of all.
template <class T, class D>
struct ScatterFew {
  Occurrences o;
  const std::int32_t* tokens;
  const T* dout;
  D* dtable;
  std::int64_t width;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t i, std::int64_t c) const {
    const std::int32_t token = tokens[i], count = o.count[token];
    if (count > Occurrences::kFew || o.arrival[i] != 0) return;
    D* to = dtable + token * width + c;
    const Words<W, D> before = load_words<W>(to);
    Floats<W> sums{};
    if (count == 1) {
      add(load<W>(dout + i * width + c), sums);
    } else {
      const std::int32_t* order = o.order + o.start[token];
      for (std::int32_t e = 0; e < count; e += 2) {
        const bool pair = e + 1 < count;
        const Words<W, T> first = load_words<W>(dout + order[e] * width + c),
                          second = pair ? load_words<W>(dout + order[e + 1] * width + c) : Words<W, T>{};
        add(to_floats(first), sums);
        if (pair) add(to_floats(second), sums);
      }
    }
    Floats<W> total = to_floats(before);
    add(sums, total);
    store(to, total);
  }
};

// The tokens that occur more often. A team has a token and kTeam·W columns at a time; kAhead rows are under way, added in
// order. Few columns a thread, so that many rows fit into its registers: the most frequent token of all takes longest.
template <class T, class D, int W>
struct ScatterFrequent {
  static constexpr int kTeam = 128, kAhead = 32;

  Occurrences o;
  const T* dout;
  D* dtable;
  std::int64_t width, tiles;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t items = *o.frequent_used * tiles;
    for (std::int64_t item = member.league_rank(); item < items; item += member.league_size()) {
      const std::int64_t k = quotient(item, tiles), tile = item - k * tiles;
      const std::int64_t c = (tile * kTeam + member.team_rank()) * W;
      if (c < width) add_all(o.frequent[k], c);
    }
  }

 private:
  KOKKOS_FUNCTION void add_all(std::int64_t token, std::int64_t c) const {
    const std::int32_t* order = o.order + o.start[token];
    const std::int32_t count = o.count[token];
    Floats<W> sums{};
    for (std::int32_t e = 0; e < count; e += kAhead) {
      Words<W, T> row[kAhead];
      for (int j = 0; j < kAhead; ++j)
        if (e + j < count) row[j] = load_words<W>(dout + order[e + j] * width + c);
      for (int j = 0; j < kAhead; ++j)
        if (e + j < count) add(to_floats(row[j]), sums);
    }
    D* to = dtable + token * width + c;
    Floats<W> total = load<W>(to);
    add(sums, total);
    store(to, total);
  }
};

template <int W, class T, class D>
void scatter_frequent(const Exec& exec, ScatterFrequent<T, D, W> s, std::int64_t tokens) {
  using Op = ScatterFrequent<T, D, W>;
  s.tiles = (s.width + Op::kTeam * W - 1) / (Op::kTeam * W);
  // Each of these tokens occurs more than kFew times, so they are few. Beyond 4096, more teams than a GPU runs at a time, teams
  // take several.
  const std::int64_t most = tokens / (Occurrences::kFew + 1) * s.tiles;
  if (most == 0) return;
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<Op::kTeam, 1>>;
  Kokkos::parallel_for("mylos::embedding::backward_frequent",
                       Policy(exec, int(std::min<std::int64_t>(most, 4096)), Op::kTeam), s);
}

template <class T, class D>
void scatter_on_gpu(const Stream& stream, const Tensor& tokens, const Tensor& dout, const Tensor& workspace,
                    const Tensor& dtable) {
  constexpr int W = pack_width<T, D>;
  const Exec& exec = exec_of(stream);
  const std::int64_t n = tokens.extent(0), width = dtable.extent(1);
  const Occurrences o =
      group_tokens(stream, tokens, dtable.extent(0), static_cast<std::int32_t*>(static_cast<void*>(workspace.data())));
  const bool vector = rows_aligned(dout) && rows_aligned(dtable) && width % W == 0;
  for_each<W>(exec, "mylos::embedding::backward", n, width, vector,
              ScatterFew<T, D>{o, tokens.as<std::int32_t>(), dout.as<T>(), dtable.as<D>(), width});
  if (vector) {
    scatter_frequent(exec, ScatterFrequent<T, D, 2>{o, dout.as<T>(), dtable.as<D>(), width, 0}, n);
  } else {
    scatter_frequent(exec, ScatterFrequent<T, D, 1>{o, dout.as<T>(), dtable.as<D>(), width, 0}, n);
  }
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
    for_each<pack_width<T>>(exec_of(stream), "mylos::embedding::forward", tokens.extent(0), width,
                            rows_aligned(table) && rows_aligned(out),
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
