#include "kernels/detail/for_each.hpp"
#include "kernels/swiglu/silu.hpp"
#include "kernels/swiglu/swiglu_device.hpp"

namespace mylos::kernels::device {
namespace {

template <class T>
struct Forward {
  const T* gate_up;
  T* out;
  std::int64_t width;  // F

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t row, std::int64_t c) const {
    const T* gate = gate_up + row * 2 * width + c;
    const Floats<W> g = load<W>(gate), u = load<W>(gate + width);
    Floats<W> y;
    for (int k = 0; k < W; ++k) y.v[k] = gated<T>(g.v[k], u.v[k]);
    store(out + row * width + c, y);
  }
};

template <class T>
struct Backward {
  const T* gate_up;
  const T* dout;
  T* dgate_up;
  std::int64_t width;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t row, std::int64_t c) const {
    const T* gate = gate_up + row * 2 * width + c;
    const Floats<W> g = load<W>(gate), u = load<W>(gate + width), d = load<W>(dout + row * width + c);
    Floats<W> dg, du;
    for (int k = 0; k < W; ++k) {
      const GatedGradient x = gated_gradient<T>(g.v[k], u.v[k], d.v[k]);
      dg.v[k] = x.gate;
      du.v[k] = x.up;
    }
    T* dgate = dgate_up + row * 2 * width + c;
    store(dgate, dg);
    store(dgate + width, du);
  }
};

// The up half of a row starts 16-byte aligned too.
bool vector_rows(const Tensor& gate_up, const Tensor& half) { return rows_aligned(gate_up) && rows_aligned(half); }

}  // namespace

void swiglu_forward(const Stream& stream, const Tensor& gate_up, const Tensor& out) {
  with_float_type(out.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t width = out.extent(1);
    for_each<pack_width<T>>(exec_of(stream), "mylos::swiglu::forward", out.extent(0), width, vector_rows(gate_up, out),
                            Forward<T>{gate_up.as<T>(), out.as<T>(), width});
  });
}

void swiglu_backward(const Stream& stream, const Tensor& gate_up, const Tensor& dout, const Tensor& dgate_up) {
  with_float_type(dout.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t width = dout.extent(1);
    for_each<pack_width<T>>(exec_of(stream), "mylos::swiglu::backward", dout.extent(0), width,
                            vector_rows(gate_up, dout) && rows_aligned(dgate_up),
                            Backward<T>{gate_up.as<T>(), dout.as<T>(), dgate_up.as<T>(), width});
  });
}

}  // namespace mylos::kernels::device
