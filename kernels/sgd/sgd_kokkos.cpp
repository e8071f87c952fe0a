#include "kernels/optimizer/flat_update.hpp"
#include "kernels/sgd/sgd_device.hpp"

namespace mylos::kernels::device {
namespace {

template <Weights kind, class G, class M>
struct Sgd {
  FlatUpdate<kind, G> u;
  static constexpr int kWidth = flat_width<typename FlatUpdate<kind, G>::P, G, M>;
  float momentum;
  // The direction is of_gradient·g + of_buffer·m: one kernel for both kinds of momentum.
  float of_gradient, of_buffer;
  M* m;

  KOKKOS_FUNCTION bool enter() { return u.enter(); }

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> grad = load<W>(u.g + i), buffer = load<W>(m + i), weight = u.template weight<W>(i);
    for (int k = 0; k < W; ++k) {
      const float d = grad.v[k] * u.factor;
      buffer.v[k] = Kokkos::fma(momentum, buffer.v[k], d);
      weight.v[k] = u.moved(weight.v[k], Kokkos::fma(of_buffer, buffer.v[k], of_gradient * d));
    }
    u.store_state(i, kFirstState, m, buffer);
    u.store_weight(i, weight);
  }
};

}  // namespace

void sgd(const Stream& stream, const SgdStep& s, const FlatOperands& operands, const Tensor& m) {
  launch_flat(
      stream, "mylos::sgd::step", s.flat, operands, m.dtype(), {m},
      [&]<Weights kind, class G>(const FlatUpdate<kind, G>& u, auto type) {
        using M = decltype(type);
        return Sgd<kind, G, M>{u, s.momentum, s.nesterov ? 1.0f : 0.0f, s.nesterov ? s.momentum : 1.0f, m.as<M>()};
      });
}

}  // namespace mylos::kernels::device
