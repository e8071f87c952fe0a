#include <cmath>

#include "kernels/adamw/adamw_device.hpp"
#include "kernels/optimizer/flat_update.hpp"

namespace mylos::kernels::device {
namespace {

// (m/c1) / (sqrt(v/c2) + eps) = correction · m / (sqrt(v) + scaled_eps), with correction = sqrt(c2)/c1 and scaled_eps =
// eps·sqrt(c2).
struct Coefficients {
  float beta1, beta2, one_minus_beta1, one_minus_beta2, correction, scaled_eps;
};

template <Weights kind, class G, class M>
struct AdamW {
  FlatUpdate<kind, G> u;
  static constexpr int kWidth = flat_width<typename FlatUpdate<kind, G>::P, G, M>;
  Coefficients c;
  M* m;
  M* v;

  KOKKOS_FUNCTION bool enter() { return u.enter(); }

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> grad = load<W>(u.g + i), first = load<W>(m + i), second = load<W>(v + i),
              weight = u.template weight<W>(i);
    for (int k = 0; k < W; ++k) {
      const float d = grad.v[k] * u.factor;
      first.v[k] = Kokkos::fma(c.beta1, first.v[k], c.one_minus_beta1 * d);
      second.v[k] = Kokkos::fma(c.beta2, second.v[k], c.one_minus_beta2 * (d * d));
      weight.v[k] = u.moved(weight.v[k], divided(first.v[k] * c.correction, root(second.v[k]) + c.scaled_eps));
    }
    u.store_state(i, kFirstState, m, first);
    u.store_state(i, kSecondState, v, second);
    u.store_weight(i, weight);
  }
};

struct Split {
  const float* master;
  bf16* p;
  std::uint16_t* low;
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> full;
    load_raw<W>(master + i, full.v);
    store_split(p + i, low + i, full);
  }
};

struct Join {
  const bf16* p;
  const std::uint16_t* low;
  float* master;
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    store_raw<W>(master + i, load_joined<W>(p + i, low + i).v);
  }
};

Coefficients coefficients(const AdamWStep& s) {
  const double c1 = 1.0 - std::pow(double(s.beta1), double(s.step)),
               root_c2 = std::sqrt(1.0 - std::pow(double(s.beta2), double(s.step)));
  return {s.beta1, s.beta2, 1.0f - s.beta1, 1.0f - s.beta2, float(root_c2 / c1), float(s.eps * root_c2)};
}

}  // namespace

void adamw(const Stream& stream, const AdamWStep& s, const Tensor& g, const Tensor& scale, const Tensor& p,
           const Tensor& low, const Tensor& m, const Tensor& v) {
  const FlatStep flat{s.learning_rate, s.weight_decay, s.step, s.seed, s.first_index, s.stochastic_rounding};
  launch_flat(stream, "mylos::adamw::step", flat, {g, scale, p, low}, m.dtype(), {m, v},
              [&]<Weights kind, class G>(const FlatUpdate<kind, G>& u, auto type) {
                using M = decltype(type);
                return AdamW<kind, G, M>{u, coefficients(s), m.as<M>(), v.as<M>()};
              });
}

void split_master(const Stream& stream, const Tensor& master, const Tensor& p, const Tensor& low) {
  for_each<8>(exec_of(stream), "mylos::split_master::all", p.size(), all_aligned({master, p, low}),
              Split{master.as<float>(), p.as<bf16>(), low.as<std::uint16_t>()});
}

void join_master(const Stream& stream, const Tensor& p, const Tensor& low, const Tensor& master) {
  for_each<8>(exec_of(stream), "mylos::join_master::all", p.size(), all_aligned({master, p, low}),
              Join{p.as<bf16>(), low.as<std::uint16_t>(), master.as<float>()});
}

}  // namespace mylos::kernels::device
