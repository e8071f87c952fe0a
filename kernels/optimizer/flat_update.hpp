// The common part of fused optimizer updates on the device: each is a functor with a FlatUpdate and one at<W>.
//
//   template <Weights kind, class G, class M>
//   struct Rule {
//     FlatUpdate<kind, G> u;  // a member: as a base it costs 8 more registers (nvcc 13.0)
//     M* m;
//     KOKKOS_FUNCTION bool enter() { return u.enter(); }
//     template <int W> KOKKOS_FUNCTION void at(int64_t, int64_t i) const {
//       Floats<W> g = load<W>(u.g + i), w = u.template weight<W>(i); ... g.v[k] * u.factor ... u.store_weight(i, w); } };
//   launch_flat(stream, label, step, operands, m.dtype(), {m}, [&]<Weights kind, class G>(const FlatUpdate<kind, G>& u, auto type) {
//     using M = decltype(type); return Rule<kind, G, M>{u, ..., m.as<M>()}; });
//
// Only files that see Kokkos include this.
#pragma once

#include <initializer_list>

#include "kernels/detail/for_each.hpp"
#include "kernels/optimizer/flat_step.hpp"
#include "kernels/optimizer/rounding.hpp"

namespace mylos::kernels {

// 1 / 2^22 is what these may be off by, a fiftieth of a bf16 moment's own rounding; IEEE's square root and division would
// cost more instructions than all the rest.
MYLOS_FUNCTION float divided(float a, float b) {
#if defined(__CUDA_ARCH__)
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  return a * inverse;
#else
  return a / b;
#endif
}
MYLOS_FUNCTION float root(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return Kokkos::sqrt(x);
#endif
}

enum class Weights { f32, bf16_split, bf16_stochastic, bf16_nearest };

template <Weights kind, class G>
struct FlatUpdate {
  using P = std::conditional_t<kind == Weights::f32, float, bf16>;
  // State that holds a second weight: exact where the weight is.
  using Master = std::conditional_t<kind == Weights::f32 || kind == Weights::bf16_split, float, bf16>;

  Rounding rounding;
  std::uint64_t first_index;
  float learning_rate, weight_decay;
  const G* g;
  const float* scale;
  P* p;
  std::uint16_t* low;
  float factor = 1.0f;

  KOKKOS_FUNCTION bool enter() {
    if (scale != nullptr) factor = *scale;
    return factor == factor;
  }

  template <int W>
  MYLOS_FUNCTION Floats<W> weight(std::int64_t i) const {
    if constexpr (kind == Weights::bf16_split) {
      return load_joined<W>(p + i, low + i);
    } else {
      return load<W>(p + i);
    }
  }
  template <int W>
  MYLOS_FUNCTION void store_weight(std::int64_t i, const Floats<W>& x) const {
    if constexpr (kind == Weights::bf16_split) {
      store_split(p + i, low + i, x);
    } else if constexpr (kind == Weights::bf16_stochastic) {
      store_state(i, kParameter, p, x);
    } else {
      store(p + i, x);
    }
  }
  template <int W, class T>
  MYLOS_FUNCTION void store_state(std::int64_t i, Channel channel, T* to, const Floats<W>& x) const {
    store_rounded(rounding, channel, first_index + std::uint64_t(i), to + i, x);
  }
  // p - lr·(direction + weight_decay·p)
  MYLOS_FUNCTION float moved(float weight, float direction) const {
    return Kokkos::fma(-learning_rate, Kokkos::fma(weight_decay, weight, direction), weight);
  }
};

// Elements that a thread takes at once. State in f32: packs of 4, whose accesses by neighbouring threads leave no gaps.
template <class P, class G, class... State>
inline constexpr int flat_width = (... || (sizeof(State) == 4)) ? 4 : pack_width<P, G, State...>;

inline bool all_aligned(std::initializer_list<Tensor> tensors) {
  bool ok = true;
  for (const Tensor& t : tensors) ok = ok && is_aligned(t.data());
  return ok;
}

// make(FlatUpdate<kind, G>, M{}) gives the functor for weights of this kind and the types of gradient and state at hand; its kWidth is how
// many elements a thread takes. A functor with launch(exec, label, elements) is launched by it on a GPU where all is aligned. `state` lists all tensors beside the operands, for their addresses; M has state_dtype.
template <Weights kind, class Make>
void launch_flat_as(const Stream& stream, const char* label, const FlatStep& step, const FlatOperands& o,
                    DType state_dtype, std::initializer_list<Tensor> state, const Make& make) {
  with_float_type(o.g.dtype(), [&](auto grad) {
    with_float_type(state_dtype, [&](auto moment) {
      using G = decltype(grad);
      using Update = FlatUpdate<kind, G>;
      const Update update{{step.seed, std::uint32_t(step.step)},
                          step.first_index,
                          step.learning_rate,
                          step.weight_decay,
                          o.g.as<G>(),
                          o.scale ? o.scale.as<float>() : nullptr,
                          o.p.as<typename Update::P>(),
                          o.low ? o.low.as<std::uint16_t>() : nullptr};
      const auto op = make(update, moment);
      constexpr int kWidth = decltype(op)::kWidth;
      const bool vector = all_aligned({o.g, o.p, o.low}) && all_aligned(state) && step.first_index % kWidth == 0;
      if constexpr (kOnGpu && requires { op.launch(exec_of(stream), label, o.p.size()); }) {
        if (vector) return op.launch(exec_of(stream), label, o.p.size());
      }
      for_each<kWidth>(exec_of(stream), label, o.p.size(), vector, op);
    });
  });
}

// The same for the kind of weights that the operands are.
template <class Make>
void launch_flat(const Stream& stream, const char* label, const FlatStep& step, const FlatOperands& o,
                 DType state_dtype, std::initializer_list<Tensor> state, const Make& make) {
  if (o.p.dtype() == DType::f32) {
    launch_flat_as<Weights::f32>(stream, label, step, o, state_dtype, state, make);
  } else if (o.low) {
    launch_flat_as<Weights::bf16_split>(stream, label, step, o, state_dtype, state, make);
  } else if (step.stochastic_rounding) {
    launch_flat_as<Weights::bf16_stochastic>(stream, label, step, o, state_dtype, state, make);
  } else {
    launch_flat_as<Weights::bf16_nearest>(stream, label, step, o, state_dtype, state, make);
  }
}

}  // namespace mylos::kernels
