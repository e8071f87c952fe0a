#include "kernels/detail/rows.hpp"
#include "kernels/muon/muon_device.hpp"

namespace mylos::kernels::device {
namespace {

template <class T>
struct RowSquares {
  const T* t;
  std::int64_t width;
  float* sums;

  template <class Row>
  KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
    const T* const x = t + r * width;
    const float total = row.sum(width, [=](auto w, std::int64_t i) {
      constexpr int kW = decltype(w)::value;
      const Floats<kW> v = load<kW>(x + i);
      float s = 0.0f;
      for (int k = 0; k < kW; ++k) s = Kokkos::fma(v.v[k], v.v[k], s);
      return s;
    });
    row.once([&] { sums[r] = total; });
  }
};

template <class T>
struct DivideByNorms {
  const double* squares;
  const T* t;
  T* to;
  std::int64_t size;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t matrix, std::int64_t i) const {
    const auto factor = float(1.0 / (Kokkos::sqrt(squares[matrix]) + 1e-7));
    const std::int64_t first = matrix * size + i;
    Floats<W> x = load<W>(t + first);
    for (int k = 0; k < W; ++k) x.v[k] *= factor;
    store(to + first, x);
  }
};

template <class T>
struct AddIdentity {
  T* q;
  std::int64_t side;
  float value;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t matrix, std::int64_t i) const {
    T* const p = q + (matrix * side + i) * side + i;
    Floats<1> x = load<1>(p);
    x.v[0] += value;
    store(p, x);
  }
};

// A tile goes through a team's scratch memory, so that both its rows and its columns are read and written in runs.
constexpr int kTile = 64;

template <class T>
struct MirrorBelow {
  T* c;
  std::int64_t side;
  int tiles;  // along a half

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    T* const tile = static_cast<T*>(member.team_scratch(0).get_shmem(sizeof(T) * kTile * (kTile + 2)));
    const std::int64_t half = side / 2, row = member.league_rank() / tiles * kTile,
                       column = member.league_rank() % tiles * kTile;  // of the block below the diagonal
    const auto each = [&](const auto& f) {
      for (int e = member.team_rank(); e < kTile * kTile; e += member.team_size()) {
        const int across = e % kTile, down = e / kTile;
        f(down, across);
      }
    };
    each([&](int r, int k) {
      if (row + r < half && column + k < half) tile[r * (kTile + 2) + k] = c[(half + row + r) * side + column + k];
    });
    member.team_barrier();
    each([&](int k, int r) {
      if (row + r < half && column + k < half) c[(column + k) * side + half + row + r] = tile[r * (kTile + 2) + k];
    });
  }
};

}  // namespace

void row_squares(const Stream& stream, const Tensor& t, const Tensor& sums) {
  const std::int64_t rows = t.extent(0) * t.extent(1), width = t.extent(2);
  with_float_type(t.dtype(), [&](auto type) {
    using T = decltype(type);
    const bool vector = is_aligned(t.data()) && width % pack_width<T> == 0;
    for_each_row<pack_width<T>>(exec_of(stream), "mylos::muon::row_squares", rows, width, vector,
                                RowSquares<T>{t.as<T>(), width, sums.as<float>()});
  });
}

void divide_by_norms(const Stream& stream, const Tensor& squares, const Tensor& t, const Tensor& to) {
  const std::int64_t size = t.extent(1) * t.extent(2);
  with_float_type(t.dtype(), [&](auto type) {
    using T = decltype(type);
    const bool vector =
        is_aligned(t.data()) && is_aligned(to.data()) && (size % pack_width<T> == 0 || t.extent(0) == 1);
    for_each<pack_width<T>>(exec_of(stream), "mylos::muon::divide_by_norms", t.extent(0), size, vector,
                            DivideByNorms<T>{squares.as<double>(), t.as<T>(), to.as<T>(), size});
  });
}

void add_identity(const Stream& stream, float value, const Tensor& q) {
  with_float_type(q.dtype(), [&](auto type) {
    using T = decltype(type);
    for_each<1>(exec_of(stream), "mylos::muon::add_identity", q.extent(0), q.extent(1), false,
                AddIdentity<T>{q.as<T>(), q.extent(1), value});
  });
}

void mirror_below(const Stream& stream, const Tensor& c) {
  const std::int64_t side = c.extent(0);
  const int tiles = int((side / 2 + kTile - 1) / kTile);
  with_float_type(c.dtype(), [&](auto type) {
    using T = decltype(type);
    TeamPolicy policy(exec_of(stream), tiles * tiles, kOnGpu ? 256 : 1);
    policy.set_scratch_size(0, Kokkos::PerTeam(int(sizeof(T)) * kTile * (kTile + 2)));
    Kokkos::parallel_for("mylos::muon::mirror_below", policy, MirrorBelow<T>{c.as<T>(), side, tiles});
  });
}

}  // namespace mylos::kernels::device
