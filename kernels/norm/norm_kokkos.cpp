#include "kernels/detail/rows.hpp"
#include "kernels/detail/team_sum.hpp"
#include "kernels/norm/norm_device.hpp"

namespace mylos::kernels::device {
namespace {

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

// The squares of a GPU thread: every threads-th pack of t from `thread` on.
template <int W, class T>
MYLOS_FUNCTION double strided_squares(const T* t, std::int64_t n, std::int64_t thread, std::int64_t threads) {
  const std::int64_t packs = n / W;
  const auto add = [&](double& s, const Words<W, T>& raw) {
    const Floats<W> x = to_floats(raw);
    for (int k = 0; k < W; ++k) s += square(x.v[k]);
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
  if (rest < n) s += square(float(t[rest]));
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
    double s = strided_squares<W>(t, n, thread, std::int64_t(member.league_size()) * member.team_size());
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

template <class T>
struct SumRowOnCpu {
  const T* t;
  std::int64_t width;
  double* result;

  void operator()(std::int64_t row) const {
    result[row] = cpu_sum(t + row * width, width, [](float x) { return double(x); });
  }
};

// A GPU team a row, kAhead packs a thread under way at a time.
template <class T, int W>
struct SumRowOnGpu {
  static constexpr int kThreads = 256, kAhead = 4;
  using Sum = detail::TeamSum<kThreads, double>;
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, 2048 / kThreads>>;

  const T* t;
  std::int64_t width;
  double* result;

  KOKKOS_FUNCTION void operator()(const typename Policy::member_type& member) const {
    const int rank = member.team_rank();
    const std::int64_t row = member.league_rank(), packs = width / W;
    const T* const x = t + row * width;
    double s = 0.0;
    for (std::int64_t first = rank; first < packs; first += kAhead * kThreads) {
      Words<W, T> raw[kAhead] = {};  // adding zeros leaves the sum as it is
      for (int j = 0; j < kAhead; ++j)
        if (first + j * kThreads < packs) raw[j] = load_words<W>(x + (first + j * kThreads) * W);
      for (int j = 0; j < kAhead; ++j) s += sum_of(to_floats(raw[j]));
    }
    const std::int64_t rest = packs * W + rank;
    if (rest < width) s += double(float(x[rest]));
    Sum sum(member.team_scratch(0).get_shmem_aligned(+Sum::kBytes, 16));
    s = sum(member, s);
    if (rank == 0) result[row] = s;
  }

 private:
  static MYLOS_FUNCTION double sum_of(const Floats<W>& x) {
    double s = 0.0;
    if constexpr (W == 1) s = double(x.v[0]);
    for (int k = 0; k + 4 <= W; k += 4)
      s += (double(x.v[k]) + double(x.v[k + 1])) + (double(x.v[k + 2]) + double(x.v[k + 3]));
    return s;
  }
};

template <class T, int W>
void sum_rows_on_gpu(const Exec& exec, const char* label, const Tensor& t, const Tensor& result) {
  using Op = SumRowOnGpu<T, W>;
  Kokkos::parallel_for(label,
                       typename Op::Policy(exec, int(t.extent(0)), Op::kThreads)
                           .set_scratch_size(0, Kokkos::PerTeam(Op::Sum::kBytes + 16)),
                       Op{t.as<T>(), t.extent(1), result.as<double>()});
}

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
  const Exec& exec = exec_of(stream);
  constexpr const char* kLabel = "mylos::sum_rows::all";
  with_float_type(t.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (kOnGpu) {
      if (rows_aligned(t)) {
        sum_rows_on_gpu<T, pack_width<T>>(exec, kLabel, t, result);
      } else {
        sum_rows_on_gpu<T, 1>(exec, kLabel, t, result);
      }
    } else {
      Kokkos::parallel_for(kLabel, Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec, 0, t.extent(0)),
                           SumRowOnCpu<T>{t.as<T>(), t.extent(1), result.as<double>()});
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
