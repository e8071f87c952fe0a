#include "kernels/detail/rows.hpp"
#include "kernels/norm/norm_device.hpp"

namespace mylos::kernels::device {
namespace {

template <bool kSquare>
MYLOS_FUNCTION double term(float x) {
  return kSquare ? double(x) * double(x) : double(x);
}

// Block b of a CPU: a run of neighbouring elements, whose bounds do not depend on the number of threads.
template <class T, bool kSquare>
struct CpuPartial {
  const T* t;
  std::int64_t n;
  double* partial;

  void operator()(std::int64_t b) const {
    constexpr int kLanes = 32;
    double lanes[kLanes] = {};
    const std::int64_t per_block = (n + kSumBlocks - 1) / kSumBlocks;
    std::int64_t i = std::min(n, b * per_block);
    const std::int64_t end = std::min(n, i + per_block);
    for (; i + kLanes <= end; i += kLanes) {
      MYLOS_SIMD
      for (int k = 0; k < kLanes; ++k) lanes[k] += term<kSquare>(float(t[i + k]));
    }
    for (int k = 0; i < end; ++i, ++k) lanes[k] += term<kSquare>(float(t[i]));
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    partial[b] = lanes[0];
  }
};

// Block b of a GPU: a team that strides over the tensor.
template <class T, bool kSquare, int W>
struct TeamPartial {
  const T* t;
  std::int64_t n;
  double* partial;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t thread = std::int64_t(member.league_rank()) * member.team_size() + member.team_rank();
    const std::int64_t threads = std::int64_t(member.league_size()) * member.team_size();
    const std::int64_t packs = n / W;
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
    if (rest < n) s += term<kSquare>(float(t[rest]));
    member.team_reduce(Kokkos::Sum<double>(s));
    if (member.team_rank() == 0) partial[member.league_rank()] = s;
  }

 private:
  static MYLOS_FUNCTION void add(double& s, const Words<W, T>& raw) {
    const Floats<W> x = to_floats(raw);
    for (int k = 0; k < W; ++k) s += term<kSquare>(x.v[k]);
  }
};

struct CombineBlocks {
  const double* partial;
  double* result;
  bool accumulate;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    double s = 0.0;
    for (std::int64_t b = member.team_rank(); b < kSumBlocks; b += member.team_size()) s += partial[b];
    member.team_reduce(Kokkos::Sum<double>(s));
    if (member.team_rank() == 0) result[0] = accumulate ? result[0] + s : s;
  }
};

template <bool kSquare>
void reduce(const Exec& exec, const char* label, const Tensor& t, bool accumulate, const Tensor& workspace,
            const Tensor& result) {
  double* partial = static_cast<double*>(workspace.data());
  with_float_type(t.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (kOnGpu) {
      const TeamPolicy policy(exec, int(kSumBlocks), 256);
      if (is_aligned(t.data())) {
        Kokkos::parallel_for(label, policy, TeamPartial<T, kSquare, pack_width<T>>{t.as<T>(), t.size(), partial});
      } else {
        Kokkos::parallel_for(label, policy, TeamPartial<T, kSquare, 1>{t.as<T>(), t.size(), partial});
      }
    } else {
      Kokkos::parallel_for(label, Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec, 0, kSumBlocks),
                           CpuPartial<T, kSquare>{t.as<T>(), t.size(), partial});
    }
  });
  Kokkos::parallel_for("mylos::sum::combine", TeamPolicy(exec, 1, kOnGpu ? 256 : 1),
                       CombineBlocks{partial, result.as<double>(), accumulate});
}

}  // namespace

void sum_of_squares(const Stream& stream, const Tensor& t, const Tensor& workspace, const Tensor& result) {
  reduce<true>(exec_of(stream), "mylos::sum_of_squares::blocks", t, false, workspace, result);
}

void sum(const Stream& stream, const Tensor& t, bool accumulate, const Tensor& workspace, const Tensor& result) {
  reduce<false>(exec_of(stream), "mylos::sum::blocks", t, accumulate, workspace, result);
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
