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

constexpr int kHeads = kOnGpu ? 4 : 1;  // that a GPU thread rotates; a CPU vectorises over the columns of one

template <class T>
struct Rotate {
  T* x;
  const float* table;
  const std::int32_t* positions;
  std::int64_t heads, groups, half, token_stride, head_stride;
  float sign;  // of the sine: -1 rotates back

  // Row: kHeads heads of one token, whose angles are read once.
  template <int W>
  KOKKOS_FUNCTION void at(std::int64_t row, std::int64_t i) const {
    const std::int64_t token = quotient(row, groups), first = (row - token * groups) * kHeads;
    T* p = x + token * token_stride + first * head_stride + i;
    const float* angle = table + std::int64_t(positions[token]) * 2 * half + i;
    Words<W, T> x1[kHeads], x2[kHeads];
    for (int h = 0; h < kHeads; ++h) {
      if (kHeads > 1 && first + h >= heads) continue;
      x1[h] = load_words<W>(p + h * head_stride);
      x2[h] = load_words<W>(p + h * head_stride + half);
    }
    const Floats<W> cosine = load<W>(angle), sine = load<W>(angle + half);
    for (int h = 0; h < kHeads; ++h) {
      if (kHeads > 1 && first + h >= heads) continue;
      const Floats<W> a = to_floats(x1[h]), b = to_floats(x2[h]);
      Floats<W> y1, y2;
      for (int k = 0; k < W; ++k) {
        const float s = sign * sine.v[k];
        y1.v[k] = a.v[k] * cosine.v[k] - b.v[k] * s;
        y2.v[k] = b.v[k] * cosine.v[k] + a.v[k] * s;
      }
      store(p + h * head_stride, y1);
      store(p + h * head_stride + half, y2);
    }
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
    const std::int64_t half = x.extent(2) / 2, groups = (x.extent(1) + kHeads - 1) / kHeads;
    const bool vector = rows_aligned(x) && rows_aligned(table) && half % W == 0;
    for_each<W>(exec_of(stream), backward ? "mylos::rope::backward" : "mylos::rope::forward", x.extent(0) * groups,
                half, vector,
                Rotate<T>{x.as<T>(), table.as<float>(), positions.as<std::int32_t>(), x.extent(1), groups, half,
                          x.stride(0), x.stride(1), backward ? -1.0f : 1.0f});
  });
}

}  // namespace mylos::kernels::device
