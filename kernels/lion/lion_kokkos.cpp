#include "kernels/lion/lion_device.hpp"
#include "kernels/lion/lion_packs_gpu.hpp"
#include "kernels/optimizer/flat_update.hpp"

namespace mylos::kernels::device {
namespace {

template <Weights kind, class G, class M>
struct Lion {
  using P = typename FlatUpdate<kind, G>::P;
  static constexpr int kWidth = flat_width<P, G, M>;

  FlatUpdate<kind, G> u;
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  M* m;

  KOKKOS_FUNCTION bool enter() { return u.enter(); }

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    update(i, load<W>(u.g + i), load<W>(m + i), u.template weight<W>(i));
  }
  template <int W>
  MYLOS_FUNCTION void update(std::int64_t i, const Floats<W>& grad, Floats<W> momentum, Floats<W> weight) const {
    for (int k = 0; k < W; ++k) {
      const float d = grad.v[k] * u.factor, mixed = Kokkos::fma(beta1, momentum.v[k], one_minus_beta1 * d);
      momentum.v[k] = Kokkos::fma(beta2, momentum.v[k], one_minus_beta2 * d);
      const float sign = mixed > 0.0f ? 1.0f : mixed < 0.0f ? -1.0f : 0.0f;
      weight.v[k] = u.moved(weight.v[k], sign);
    }
    u.store_state(i, kFirstState, m, momentum);
    u.store_weight(i, weight);
  }

  void launch(const Exec& exec, const char* label, std::int64_t n) const requires(two_packs_fit<kind, G, M>) {
    launch_packs(exec, label, n, *this);
  }
};

}  // namespace

void lion(const Stream& stream, const LionStep& step, const FlatOperands& operands, const Tensor& m) {
  launch_flat(stream, "mylos::lion::step", step.flat, operands, m.dtype(), {m},
              [&]<Weights kind, class G>(const FlatUpdate<kind, G>& u, auto type) {
                using M = decltype(type);
                return Lion<kind, G, M>{
                    u,        float(step.beta1), float(1.0 - step.beta1), float(step.beta2), float(1.0 - step.beta2),
                    m.as<M>()};
              });
}

}  // namespace mylos::kernels::device
