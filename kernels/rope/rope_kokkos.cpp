#include "kernels/detail/for_each.hpp"
#include "kernels/rope/rope_device.hpp"

namespace mylos::kernels::device {
namespace {

struct Table {
  float* table;
  std::int64_t half;
  double log_theta;

  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t position, std::int64_t i) const {
    const double angle = double(position) * Kokkos::exp(-log_theta * double(i) / double(half));
    table[position * 2 * half + i] = float(Kokkos::cos(angle));
    table[position * 2 * half + half + i] = float(Kokkos::sin(angle));
  }
};

template <class T>
struct Rotate {
  T* x;
  const float* table;
  const std::int32_t* positions;
  std::int64_t heads, half, token_stride, head_stride;
  float sign;  // of the sine: -1 rotates back

  // Row: one head of one token.
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t row, std::int64_t i) const {
    const std::int64_t token = row / heads;
    T* p = x + token * token_stride + (row - token * heads) * head_stride + i;
    const float* angle = table + std::int64_t(positions[token]) * 2 * half + i;
    const Floats<W> cosine = load<W>(angle), sine = load<W>(angle + half);
    const Floats<W> x1 = load<W>(p), x2 = load<W>(p + half);
    Floats<W> y1, y2;
    for (int k = 0; k < W; ++k) {
      const float s = sign * sine.v[k];
      y1.v[k] = x1.v[k] * cosine.v[k] - x2.v[k] * s;
      y2.v[k] = x2.v[k] * cosine.v[k] + x1.v[k] * s;
    }
    store(p, y1);
    store(p + half, y2);
  }
};

}  // namespace

void rope_table(const Stream& stream, double theta, const Tensor& table) {
  const std::int64_t half = table.extent(1) / 2;
  for_each<1>(exec_of(stream), "mylos::rope::table", table.extent(0), half, false,
              Table{table.as<float>(), half, Kokkos::log(theta)});
}

void rope(const Stream& stream, bool backward, const Tensor& table, const Tensor& positions, const Tensor& x) {
  with_float_type(x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int W = pack_width<T>;
    const std::int64_t half = x.extent(2) / 2;
    const bool vector = rows_aligned(x) && rows_aligned(table) && half % W == 0;
    for_each<W>(exec_of(stream), backward ? "mylos::rope::backward" : "mylos::rope::forward", x.extent(0) * x.extent(1),
                half, vector,
                Rotate<T>{x.as<T>(), table.as<float>(), positions.as<std::int32_t>(), x.extent(1), half, x.stride(0),
                          x.stride(1), backward ? -1.0f : 1.0f});
  });
}

}  // namespace mylos::kernels::device
