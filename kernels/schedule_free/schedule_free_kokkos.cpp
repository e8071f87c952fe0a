#include "kernels/optimizer/flat_update.hpp"
#include "kernels/schedule_free/schedule_free_device.hpp"

namespace mylos::kernels::device {
namespace {

template <Weights kind, class G, class M>
struct ScheduleFree {
  using Base = FlatUpdate<kind, G>;
  Base u;
  using Z = typename Base::Master;
  static constexpr int kWidth = flat_width<typename Base::P, G, M, Z>;
  float gamma, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  const float* average;
  Z* z;
  M* v;
  float c = 0.0f;

  KOKKOS_FUNCTION bool enter() {
    c = *average;
    return u.enter();
  }

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> grad = load<W>(u.g + i), fast = load<W>(z + i), second = load<W>(v + i), y = u.template weight<W>(i);
    const float towards_y = gamma * Kokkos::fma(beta1, c, one_minus_beta1);
    for (int k = 0; k < W; ++k) {
      const float g = grad.v[k] * u.factor;
      second.v[k] = Kokkos::fma(beta2, second.v[k], one_minus_beta2 * (g * g));
      const float d = Kokkos::fma(u.weight_decay, y.v[k], divided(g, root(second.v[k]) + eps));
      y.v[k] = Kokkos::fma(-towards_y, d, Kokkos::fma(c, fast.v[k] - y.v[k], y.v[k]));
      fast.v[k] = Kokkos::fma(-gamma, d, fast.v[k]);
    }
    u.store_state(i, kFirstState, z, fast);
    u.store_state(i, kSecondState, v, second);
    u.store_weight(i, y);
  }
};

// Split: y in two halves.
template <class P, class Z, bool kSplit>
struct AverageWeights {
  float of_y, of_z;
  const P* p;
  const std::uint16_t* low;
  const Z* z;
  P* x;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> y;
    if constexpr (kSplit) {
      y = load_joined<W>(p + i, low + i);
    } else {
      y = load<W>(p + i);
    }
    const Floats<W> fast = load<W>(z + i);
    for (int k = 0; k < W; ++k) y.v[k] = Kokkos::fma(of_y, y.v[k], of_z * fast.v[k]);
    store(x + i, y);
  }
};

}  // namespace

void schedule_free_average(const Stream& stream, float gamma, const Tensor& scale, const Tensor& sum,
                           const Tensor& average) {
  const float* factor = scale ? scale.as<float>() : nullptr;
  double* total = sum.as<double>();
  float* c = average.as<float>();
  const double square = double(gamma) * double(gamma);
  Kokkos::parallel_for(
      "mylos::schedule_free::average", Kokkos::RangePolicy<Exec>(exec_of(stream), 0, 1), KOKKOS_LAMBDA(int) {
        if (factor != nullptr && Kokkos::isnan(*factor)) return;
        *total += square;
        *c = *total > 0.0 ? float(square / *total) : 0.0f;
      });
}

void schedule_free(const Stream& stream, const ScheduleFreeStep& s, float gamma, const FlatOperands& operands,
                   const Tensor& average, const Tensor& z, const Tensor& v) {
  launch_flat(stream, "mylos::schedule_free::step", s.flat, operands, v.dtype(), {z, v},
              [&]<Weights kind, class G>(const FlatUpdate<kind, G>& u, auto type) {
                using M = decltype(type);
                using Op = ScheduleFree<kind, G, M>;
                return Op{u,
                          gamma,
                          float(s.beta1),
                          float(1.0 - s.beta1),
                          float(s.beta2),
                          float(1.0 - s.beta2),
                          s.eps,
                          average.as<float>(),
                          z.as<typename Op::Z>(),
                          v.as<M>()};
              });
}

void schedule_free_weights(const Stream& stream, double beta1, const Tensor& p, const Tensor& low, const Tensor& z,
                           const Tensor& x) {
  const bool vector = all_aligned({p, low, z, x});
  const auto launch = [&]<class P, class Z, bool kSplit>(AverageWeights<P, Z, kSplit>) {
    const AverageWeights<P, Z, kSplit> op{float(1.0 / beta1), float(1.0 - 1.0 / beta1),
                                          p.as<P>(),          low ? low.as<std::uint16_t>() : nullptr,
                                          z.as<Z>(),          x.as<P>()};
    for_each<flat_width<P, Z>>(exec_of(stream), "mylos::schedule_free::weights", p.size(), vector, op);
  };
  if (p.dtype() == DType::f32) {
    launch(AverageWeights<float, float, false>{});
  } else if (low) {
    launch(AverageWeights<bf16, float, true>{});
  } else {
    launch(AverageWeights<bf16, bf16, false>{});
  }
}

}  // namespace mylos::kernels::device
