#include "kernels/detail/rows.hpp"
#include "kernels/norm/norm_device.hpp"

namespace mylos::kernels::device {
namespace {

MYLOS_FUNCTION double identity(float x) { return double(x); }
MYLOS_FUNCTION double square(float x) { return double(x) * double(x); }

// Of n neighbouring elements on a CPU, in an order that depends on n alone.
template <class T, class F>
double cpu_sum(const T* t, std::int64_t n, const F& term) {
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    MYLOS_SIMD
    for (int k = 0; k < kLanes; ++k) lanes[k] += term(float(t[i + k]));
  }
  for (int k = 0; i < n; ++i, ++k) lanes[k] += term(float(t[i]));
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

// The part of a GPU thread: every threads-th pack of t from `thread` on.
template <int W, class T, class F>
MYLOS_FUNCTION double strided_sum(const T* t, std::int64_t n, std::int64_t thread, std::int64_t threads,
                                  const F& term) {
  const std::int64_t packs = n / W;
  const auto add = [&](double& s, const Words<W, T>& raw) {
    const Floats<W> x = to_floats(raw);
    for (int k = 0; k < W; ++k) s += term(x.v[k]);
  };
  // Four packs are under way at a time, each with a sum of its own.
  constexpr int kAhead = 4;
  double sums[kAhead] = {};
  std::int64_t i = thread;
  for (; i + (kAhead - 1) * threads < packs; i += kAhead * threads) {
    Words<W, T> raw[kAhead];
    for (int j = 0; j < kAhead; ++j) raw[j] = load_words<W>(t + (i + j * threads) * W);
    for (int j = 0; j < kAhead; ++j) add(sums[j], raw[j]);
  }
  for (; i < packs; i += threads) add(sums[0], load_words<W>(t + i * W));
  double s = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  const std::int64_t rest = packs * W + thread;
  if (rest < n) s += term(float(t[rest]));
  return s;
}

// Block b of a CPU: a run of neighbouring elements, whose bounds do not depend on the number of threads.
template <class T>
struct SquaresOnCpu {
  const T* t;
  std::int64_t n;
  double* partial;

  void operator()(std::int64_t b) const {
    const std::int64_t per_block = (n + kSumBlocks - 1) / kSumBlocks;
    const std::int64_t begin = std::min(n, b * per_block), end = std::min(n, begin + per_block);
    partial[b] = cpu_sum(t + begin, end - begin, square);
  }
};

// Block b of a GPU: a team that strides over the tensor.
template <class T, int W>
struct SquaresOnGpu {
  const T* t;
  std::int64_t n;
  double* partial;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t thread = std::int64_t(member.league_rank()) * member.team_size() + member.team_rank();
    double s = strided_sum<W>(t, n, thread, std::int64_t(member.league_size()) * member.team_size(),
                              [](float x) { return square(x); });
    member.team_reduce(Kokkos::Sum<double>(s));
    if (member.team_rank() == 0) partial[member.league_rank()] = s;
  }
};

struct CombineBlocks {
  const double* partial;
  double* result;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    double s = 0.0;
    for (std::int64_t b = member.team_rank(); b < kSumBlocks; b += member.team_size()) s += partial[b];
    member.team_reduce(Kokkos::Sum<double>(s));
    if (member.team_rank() == 0) result[0] = s;
  }
};

// A CPU thread or a GPU team a row.
template <class T, int W>
struct SumRow {
  const T* t;
  std::int64_t width;
  double* result;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t row = member.league_rank();
    const T* x = t + row * width;
    double s = 0.0;
    KOKKOS_IF_ON_HOST((s = cpu_sum(x, width, identity);))
    KOKKOS_IF_ON_DEVICE(
        (s = strided_sum<W>(x, width, member.team_rank(), member.team_size(), [](float v) { return identity(v); });
         member.team_reduce(Kokkos::Sum<double>(s));))
    if (member.team_rank() == 0) result[row] = s;
  }
};

}  // namespace

void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result) {
  const Exec& exec = exec_of(stream);
  constexpr const char* kLabel = "mylos::sum_of_squares::blocks";
  double* partial = static_cast<double*>(workspace.data());
  with_float_type(t.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (kOnGpu) {
      const TeamPolicy policy(exec, int(kSumBlocks), 256);
      if (is_aligned(t.data())) {
        Kokkos::parallel_for(kLabel, policy, SquaresOnGpu<T, pack_width<T>>{t.as<T>(), t.size(), partial});
      } else {
        Kokkos::parallel_for(kLabel, policy, SquaresOnGpu<T, 1>{t.as<T>(), t.size(), partial});
      }
    } else {
      Kokkos::parallel_for(kLabel, Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec, 0, kSumBlocks),
                           SquaresOnCpu<T>{t.as<T>(), t.size(), partial});
    }
  });
  Kokkos::parallel_for("mylos::sum_of_squares::combine", TeamPolicy(exec, 1, kOnGpu ? 256 : 1),
                       CombineBlocks{partial, result.as<double>()});
}

void sum_rows(const Stream& stream, const Tensor& t, const Tensor& result) {
  const std::int64_t rows = t.extent(0), width = t.extent(1);
  const TeamPolicy policy(exec_of(stream), int(rows), kOnGpu ? 512 : 1);
  with_float_type(t.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr const char* kLabel = "mylos::sum_rows::all";
    if (kOnGpu && rows_aligned(t)) {
      Kokkos::parallel_for(kLabel, policy, SumRow<T, pack_width<T>>{t.as<T>(), width, result.as<double>()});
    } else {
      Kokkos::parallel_for(kLabel, policy, SumRow<T, 1>{t.as<T>(), width, result.as<double>()});
    }
  });
}

void clip_scale(const Stream& stream, const Tensor& squares, float max_norm, const Tensor& norm_and_scale) {
  const double* in = squares.as<double>();
  float* out = norm_and_scale.as<float>();
  Kokkos::parallel_for(
      "mylos::clip_scale::all", Kokkos::RangePolicy<Exec>(exec_of(stream), 0, 1), KOKKOS_LAMBDA(int) {
        const double norm = Kokkos::sqrt(in[0]);
        const double scale =
            max_norm <= 0.0f || norm + 1e-6 < double(max_norm) ? 1.0 : double(max_norm) / (norm + 1e-6);
        out[0] = float(norm);
        const bool halted = Kokkos::isnan(out[1]);
        out[1] = !halted && Kokkos::isfinite(out[0]) ? float(scale) : Kokkos::Experimental::quiet_NaN_v<float>;
      });
}

}  // namespace mylos::kernels::device
