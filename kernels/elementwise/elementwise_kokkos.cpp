#include "kernels/detail/for_each.hpp"
#include "kernels/elementwise/elementwise_device.hpp"

namespace mylos::kernels::device {
namespace {

template <class From, class To>
struct Convert {
  const From* source;
  To* destination;
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    store(destination + i, load<W>(source + i));
  }
};

template <class A, class B, class S>
struct Add {
  const A* a;
  const B* b;
  S* sum;
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    Floats<W> x = load<W>(a + i);
    const Floats<W> y = load<W>(b + i);
    for (int k = 0; k < W; ++k) x.v[k] += y.v[k];
    store(sum + i, x);
  }
};

template <class T>
struct Fill {
  T* t;
  T value;
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t, std::int64_t i) const {
    T raw[W];
    for (int k = 0; k < W; ++k) raw[k] = value;
    store_raw<W>(t + i, raw);
  }
};

}  // namespace

void convert(const Stream& stream, const Tensor& source, const Tensor& destination) {
  const bool flat = is_aligned(source.data()) && is_aligned(destination.data());
  with_float_type(source.dtype(), [&](auto from) {
    with_float_type(destination.dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      for_each<pack_width<From, To>>(exec_of(stream), "mylos::convert::all", source.size(), flat,
                                     Convert<From, To>{source.as<From>(), destination.as<To>()});
    });
  });
}

void add(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum) {
  const bool flat = is_aligned(a.data()) && is_aligned(b.data()) && is_aligned(sum.data());
  with_float_type(a.dtype(), [&](auto ta) {
    with_float_type(b.dtype(), [&](auto tb) {
      with_float_type(sum.dtype(), [&](auto ts) {
        using A = decltype(ta);
        using B = decltype(tb);
        using S = decltype(ts);
        for_each<pack_width<A, B, S>>(exec_of(stream), "mylos::add::all", sum.size(), flat,
                                      Add<A, B, S>{a.as<A>(), b.as<B>(), sum.as<S>()});
      });
    });
  });
}

void fill(const Stream& stream, double value, const Tensor& t) {
  const auto launch = [&](auto v) {
    using T = decltype(v);
    for_each<pack_width<T>>(exec_of(stream), "mylos::fill::all", t.size(), is_aligned(t.data()), Fill<T>{t.as<T>(), v});
  };
  if (t.dtype() == DType::i32) return launch(std::int32_t(value));
  if (t.dtype() == DType::f32) return launch(float(value));
  launch(bf16(float(value)));
}

}  // namespace mylos::kernels::device
