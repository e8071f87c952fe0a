#include "kernels/muon/muon_device.hpp"
#include "kernels/optimizer/flat_update.hpp"

namespace mylos::kernels::device {
namespace {

template <Weights kind, class G, class M, class U>
struct Momentum {
  FlatUpdate<kind, G> u;
  static constexpr int kWidth = flat_width<U, G, M>;
  float momentum, of_gradient, of_buffer;
  M* m;
  U* out;

  KOKKOS_FUNCTION bool enter() { return u.enter(); }

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> grad = load<W>(u.g + i), buffer = load<W>(m + i);
    for (int k = 0; k < W; ++k) {
      const float d = grad.v[k] * u.factor;
      buffer.v[k] = Kokkos::fma(momentum, buffer.v[k], d);
      grad.v[k] = Kokkos::fma(of_buffer, buffer.v[k], of_gradient * d);
    }
    u.store_state(i, kFirstState, m, buffer);
    store(out + i, grad);
  }
};

template <Weights kind, class G>
struct Apply {
  FlatUpdate<kind, G> u;
  static constexpr int kWidth = flat_width<typename FlatUpdate<kind, G>::P, G>;
  float times;

  KOKKOS_FUNCTION bool enter() { return u.enter(); }

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    // Not times u.factor: the direction has forgotten the size of the gradient, so the clip factor has no part in it.
    const Floats<W> direction = load<W>(u.g + i);
    Floats<W> weight = u.template weight<W>(i);
    for (int k = 0; k < W; ++k) weight.v[k] = u.moved(weight.v[k], times * direction.v[k]);
    u.store_weight(i, weight);
  }
};

}  // namespace

void muon_momentum(const Stream& stream, const MuonStep& s, const FlatOperands& operands, const Tensor& m,
                   const Tensor& u) {
  // The weights have no part in it: their kind must not make more kernels.
  const FlatOperands all{operands.g, operands.scale, u, {}};
  with_float_type(u.dtype(), [&](auto direction) {
    using U = decltype(direction);
    constexpr Weights kind = std::is_same_v<U, float> ? Weights::f32 : Weights::bf16_nearest;
    FlatStep flat = s.flat;
    flat.stochastic_rounding = false;
    launch_flat_as<kind>(stream, "mylos::muon::momentum", flat, all, m.dtype(), {m},
                         [&]<class G>(const FlatUpdate<kind, G>& update, auto type) {
                           using M = decltype(type);
                           return Momentum<kind, G, M, U>{
                               update,    s.momentum, s.nesterov ? 1.0f : 0.0f, s.nesterov ? s.momentum : 1.0f,
                               m.as<M>(), u.as<U>()};
                         });
  });
}

void muon_apply(const Stream& stream, const FlatStep& step, const FlatOperands& operands, float factor) {
  launch_flat(stream, "mylos::muon::apply", step, operands, operands.g.dtype(), {},
              [&]<Weights kind, class G>(const FlatUpdate<kind, G>& u, auto) {
                return Apply<kind, G>{u, factor};
              });
}

}  // namespace mylos::kernels::device
