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

  // 16 random bits for each of the W elements from global index `first`.
  template <int W>
  MYLOS_FUNCTION void bits(Channel channel, std::uint64_t first, std::uint32_t (&out)[W]) const {
    if (W == 8 && first % 8 == 0) {
      const PhiloxBlock words = block(channel, first);
      for (int k = 0; k < W; ++k) out[k] = (words.v[k / 2] >> (16 * (k % 2))) & 0xffffu;
      return;
    }
    for (int k = 0; k < W; ++k) {
      const PhiloxBlock words = block(channel, first + std::uint64_t(k));
      const std::uint32_t j = std::uint32_t(first + std::uint64_t(k)) & 7u;
      const std::uint32_t low_half = j & 2u ? words.v[1] : words.v[0], high_half = j & 2u ? words.v[3] : words.v[2];
      out[k] = ((j & 4u ? high_half : low_half) >> (16u * (j & 1u))) & 0xffffu;
    }
  }
  MYLOS_FUNCTION PhiloxBlock block(Channel channel, std::uint64_t index) const {
    return philox(seed, Purpose::stochastic_rounding, step, index / 8 * 4 + channel);
  }
};

// Up with the probability of the part that bf16 cannot hold.
MYLOS_FUNCTION bf16 round_stochastic(float x, std::uint32_t random) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const bool finite = (u & 0x7f800000u) != 0x7f800000u;
  return bf16::from_bits(finite ? std::uint16_t((u + random) >> 16) : bf16::round_to_nearest(x));
}

MYLOS_FUNCTION void split(std::uint32_t master, bf16& p, std::uint16_t& low) {
  p = bf16::from_bits(std::uint16_t((master + 0x8000u) >> 16));
  low = std::uint16_t(master);
}
MYLOS_FUNCTION std::uint32_t join(bf16 p, std::uint16_t low) {
  return std::uint32_t(std::uint16_t(p.bits - (low >> 15))) << 16 | low;
}

struct Coefficients {
  float learning_rate, beta1, beta2, one_minus_beta1, one_minus_beta2, inverse_c1, inverse_c2, eps, weight_decay;
};

enum class Weights { f32, bf16_split, bf16_stochastic, bf16_nearest };

template <Weights kind, class G, class M>
struct AdamW {
  using P = std::conditional_t<kind == Weights::f32, float, bf16>;
  static constexpr int kWidth = pack_width<P, G, M>;

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
      const float direction = first.v[k] * c.inverse_c1 / (Kokkos::sqrt(second.v[k] * c.inverse_c2) + c.eps);
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
      bf16 raw[W];
      for (int k = 0; k < W; ++k) raw[k] = round_stochastic(x.v[k], random[k]);
      store_raw<W>(to, raw);
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
               c2 = 1.0 - std::pow(double(s.beta2), double(s.step));
  return {s.learning_rate, s.beta1,         s.beta2, 1.0f - s.beta1, 1.0f - s.beta2,
          float(1.0 / c1), float(1.0 / c2), s.eps,   s.weight_decay};
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
    for_each<Op::kWidth>(exec_of(stream), "mylos::adamw::step", p.size(), all_aligned({g, p, low, m, v}), op);
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
