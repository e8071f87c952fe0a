#include "kernels/detail/pack.hpp"
#include "kernels/random/random_device.hpp"
#include "tensor/philox.hpp"

namespace mylos::kernels::device {
namespace {

// One work item makes the four numbers of a Philox block and writes those that fall into the tensor.
template <class T>
struct RandomNormal {
  T* t;
  std::int64_t n;
  std::uint64_t seed, first_index, first_block;
  float std_dev;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const std::uint64_t block = first_block + std::uint64_t(item);
    const PhiloxBlock words = philox(seed, Purpose::init, 0, block);
    for (int pair = 0; pair < 2; ++pair) {
      const float radius = std_dev * Kokkos::sqrt(-2.0f * Kokkos::log(unit_interval(words.v[2 * pair])));
      const float angle = 6.283185307f * unit_interval(words.v[2 * pair + 1]);
      const float normal[2] = {radius * Kokkos::cos(angle), radius * Kokkos::sin(angle)};
      for (int k = 0; k < 2; ++k) {
        const std::int64_t i = std::int64_t(block * 4 + std::uint64_t(2 * pair + k) - first_index);
        if (i >= 0 && i < n) t[i] = T(normal[k]);
      }
    }
  }
};

}  // namespace

void random_normal(const Stream& stream, std::uint64_t seed, std::uint64_t first_index, float std_dev,
                   const Tensor& t) {
  const std::int64_t n = t.size();
  if (n == 0) return;
  const std::uint64_t first_block = first_index / 4, end_block = (first_index + std::uint64_t(n) + 3) / 4;
  with_float_type(t.dtype(), [&](auto type) {
    using T = decltype(type);
    Kokkos::parallel_for("mylos::random_normal::all",
                         Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(
                             exec_of(stream), 0, std::int64_t(end_block - first_block)),
                         RandomNormal<T>{t.as<T>(), n, seed, first_index, first_block, std_dev});
  });
}

}  // namespace mylos::kernels::device
