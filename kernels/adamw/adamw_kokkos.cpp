#include <cmath>

#include "kernels/adamw/adamw_device.hpp"
#include "kernels/detail/for_each.hpp"
#include "tensor/philox.hpp"

namespace mylos::kernels::device {
namespace {

// Who rounds: one Philox block serves the same eight neighbouring elements in each of these.
enum Channel : std::uint64_t { kFirstMoment = 0, kSecondMoment = 1, kParameter = 2 };

struct Rounding {
  std::uint64_t seed;
  std::uint32_t step;

  // 16 random bits for each of the W elements from global index `first`, a multiple of W; 1, 4 or 8 at a time.
  template <int W>
  MYLOS_FUNCTION void bits(Channel channel, std::uint64_t first, std::uint32_t (&out)[W]) const {
    const PhiloxBlock words = block(channel, first);
    if constexpr (W == 1) {
      const std::uint32_t j = std::uint32_t(first) & 7u;
      const std::uint32_t low_half = j & 2u ? words.v[1] : words.v[0], high_half = j & 2u ? words.v[3] : words.v[2];
      out[0] = ((j & 4u ? high_half : low_half) >> (16u * (j & 1u))) & 0xffffu;
    } else {
      const bool upper = W == 4 && first % 8 != 0;  // the other half of the block is a neighbour's
      for (int k = 0; k < W; ++k) {
        const std::uint32_t word = upper ? words.v[(k / 2 + 2) % 4] : words.v[k / 2];
        out[k] = k % 2 == 0 ? word & 0xffffu : word >> 16;
      }
    }
  }
  // Rounds are most of the instructions of a step with bf16 moments, and the GPU's power bounds those too: 7 rounds, the
  // fewest that pass BigCrush in the paper, serve to round.
  MYLOS_FUNCTION PhiloxBlock block(Channel channel, std::uint64_t index) const {
    return philox<7>(seed, Purpose::stochastic_rounding, step, index / 8 * 4 + channel);
  }
};

// Up with the probability of the part that bf16 cannot hold. The upper half of the result is the bf16. Infinity has no such
// part and stays; a NaN must not be counted up into a number. x is the result of arithmetic: on a GPU 0x7fffffff is then
// the only NaN, and one integer minimum deals with it.
MYLOS_FUNCTION std::uint32_t round_stochastic(float x, std::uint32_t random) {
#if defined(__CUDA_ARCH__)
  return std::uint32_t(::min(__float_as_int(x), 0x7fff0000)) + random;
#else
  return x == x ? std::bit_cast<std::uint32_t>(x) + random : 0x7fc00000u;
#endif
}

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

MYLOS_FUNCTION void split(std::uint32_t master, bf16& p, std::uint16_t& low) {
  p = bf16::from_bits(std::uint16_t((master + 0x8000u) >> 16));
  low = std::uint16_t(master);
}
MYLOS_FUNCTION std::uint32_t join(bf16 p, std::uint16_t low) {
  return std::uint32_t(std::uint16_t(p.bits - (low >> 15))) << 16 | low;
}

// (m/c1) / (sqrt(v/c2) + eps) = correction · m / (sqrt(v) + scaled_eps), with correction = sqrt(c2)/c1 and scaled_eps =
// eps·sqrt(c2).
struct Coefficients {
  float learning_rate, beta1, beta2, one_minus_beta1, one_minus_beta2, correction, scaled_eps, weight_decay;
};

enum class Weights { f32, bf16_split, bf16_stochastic, bf16_nearest };

template <Weights kind, class G, class M>
struct AdamW {
  using P = std::conditional_t<kind == Weights::f32, float, bf16>;
  // Moments in f32: packs of 4, whose accesses by neighbouring threads leave no gaps.
  static constexpr int kWidth = sizeof(M) == 4 ? 4 : pack_width<P, G, M>;

  Coefficients c;
  Rounding rounding;
  std::uint64_t first_index;
  const G* g;
  const float* scale;
  P* p;
  std::uint16_t* low;
  M* m;
  M* v;
  float factor = 1.0f;

  KOKKOS_FUNCTION bool enter() {
    if (scale != nullptr) factor = *scale;
    return factor == factor;
  }

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> grad = load<W>(g + i), first = load<W>(m + i), second = load<W>(v + i), weight = load_weights<W>(i);
    for (int k = 0; k < W; ++k) {
      const float d = grad.v[k] * factor;
      first.v[k] = Kokkos::fma(c.beta1, first.v[k], c.one_minus_beta1 * d);
      second.v[k] = Kokkos::fma(c.beta2, second.v[k], c.one_minus_beta2 * (d * d));
      const float direction = divided(first.v[k] * c.correction, root(second.v[k]) + c.scaled_eps);
      weight.v[k] = Kokkos::fma(-c.learning_rate, Kokkos::fma(c.weight_decay, weight.v[k], direction), weight.v[k]);
    }
    const std::uint64_t index = first_index + std::uint64_t(i);
    store_rounded(m + i, first, kFirstMoment, index);
    store_rounded(v + i, second, kSecondMoment, index);
    store_weights(i, weight, index);
  }

 private:
  template <int W>
  MYLOS_FUNCTION Floats<W> load_weights(std::int64_t i) const {
    if constexpr (kind == Weights::bf16_split) {
      bf16 high[W];
      std::uint16_t rest[W];
      load_raw<W>(p + i, high);
      load_raw<W>(low + i, rest);
      Floats<W> x;
      for (int k = 0; k < W; ++k) x.v[k] = std::bit_cast<float>(join(high[k], rest[k]));
      return x;
    } else {
      return load<W>(p + i);
    }
  }
  template <int W>
  MYLOS_FUNCTION void store_weights(std::int64_t i, const Floats<W>& x, std::uint64_t index) const {
    if constexpr (kind == Weights::bf16_split) {
      bf16 high[W];
      std::uint16_t rest[W];
      for (int k = 0; k < W; ++k) split(std::bit_cast<std::uint32_t>(x.v[k]), high[k], rest[k]);
      store_raw<W>(p + i, high);
      store_raw<W>(low + i, rest);
    } else if constexpr (kind == Weights::bf16_stochastic) {
      store_rounded(p + i, x, kParameter, index);
    } else {
      store(p + i, x);
    }
  }
  template <int W, class T>
  MYLOS_FUNCTION void store_rounded(T* to, const Floats<W>& x, Channel channel, std::uint64_t index) const {
    if constexpr (std::is_same_v<T, float>) {
      store(to, x);
    } else {
      std::uint32_t random[W];
      rounding.bits(channel, index, random);
      if constexpr (W == 1) {
        to->bits = std::uint16_t(round_stochastic(x.v[0], random[0]) >> 16);
      } else {
        Words<W, bf16> words;
        for (int k = 0; k < W / 2; ++k)
          words.v[k] = round_stochastic(x.v[2 * k], random[2 * k]) >> 16 |
                       (round_stochastic(x.v[2 * k + 1], random[2 * k + 1]) & 0xffff0000u);
        store_words(to, words);
      }
    }
  }
};

struct Split {
  const float* master;
  bf16* p;
  std::uint16_t* low;
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    float full[W];
    bf16 high[W];
    std::uint16_t rest[W];
    load_raw<W>(master + i, full);
    for (int k = 0; k < W; ++k) split(std::bit_cast<std::uint32_t>(full[k]), high[k], rest[k]);
    store_raw<W>(p + i, high);
    store_raw<W>(low + i, rest);
  }
};

struct Join {
  const bf16* p;
  const std::uint16_t* low;
  float* master;
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    bf16 high[W];
    std::uint16_t rest[W];
    float full[W];
    load_raw<W>(p + i, high);
    load_raw<W>(low + i, rest);
    for (int k = 0; k < W; ++k) full[k] = std::bit_cast<float>(join(high[k], rest[k]));
    store_raw<W>(master + i, full);
  }
};

Coefficients coefficients(const AdamWStep& s) {
  const double c1 = 1.0 - std::pow(double(s.beta1), double(s.step)),
               root_c2 = std::sqrt(1.0 - std::pow(double(s.beta2), double(s.step)));
  return {s.learning_rate,        s.beta1,       s.beta2, 1.0f - s.beta1, 1.0f - s.beta2, float(root_c2 / c1),
          float(s.eps * root_c2), s.weight_decay};
}

bool all_aligned(std::initializer_list<Tensor> tensors) {
  bool ok = true;
  for (const Tensor& t : tensors) ok = ok && is_aligned(t.data());
  return ok;
}

}  // namespace

void adamw(const Stream& stream, const AdamWStep& step, const Tensor& g, const Tensor& scale, const Tensor& p,
           const Tensor& low, const Tensor& m, const Tensor& v) {
  const auto launch = [&](auto kind, auto grad, auto moment) {
    using G = decltype(grad);
    using M = decltype(moment);
    using Op = AdamW<decltype(kind)::value, G, M>;
    const Op op{coefficients(step),
                {step.seed, std::uint32_t(step.step)},
                step.first_index,
                g.as<G>(),
                scale ? scale.as<float>() : nullptr,
                p.as<typename Op::P>(),
                low ? low.as<std::uint16_t>() : nullptr,
                m.as<M>(),
                v.as<M>()};
    const bool vector = all_aligned({g, p, low, m, v}) && step.first_index % Op::kWidth == 0;
    for_each<Op::kWidth>(exec_of(stream), "mylos::adamw::step", p.size(), vector, op);
  };
  with_float_type(g.dtype(), [&](auto grad) {
    with_float_type(m.dtype(), [&](auto moment) {
      if (p.dtype() == DType::f32) {
        launch(std::integral_constant<Weights, Weights::f32>{}, grad, moment);
      } else if (low) {
        launch(std::integral_constant<Weights, Weights::bf16_split>{}, grad, moment);
      } else if (step.stochastic_rounding) {
        launch(std::integral_constant<Weights, Weights::bf16_stochastic>{}, grad, moment);
      } else {
        launch(std::integral_constant<Weights, Weights::bf16_nearest>{}, grad, moment);
      }
    });
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
