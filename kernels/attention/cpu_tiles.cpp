#include "kernels/attention/cpu_tiles.hpp"

#include <cstring>

namespace mylos::kernels::attention::cpu {

void transpose(const float* in, std::int64_t rows, std::int64_t columns, float* out) {
  using Four = float __attribute__((vector_size(16)));
  for (std::int64_t i = 0; i < rows; i += 4)
    for (std::int64_t j = 0; j < columns; j += 4) {
      Four r[4];
      for (int x = 0; x < 4; ++x) std::memcpy(&r[x], in + (i + x) * columns + j, sizeof(Four));
      const Four t0 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
                 t1 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
      const Four t2 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
                 t3 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
      const Four c[4] = {__builtin_shufflevector(t0, t1, 0, 1, 4, 5), __builtin_shufflevector(t0, t1, 2, 3, 6, 7),
                         __builtin_shufflevector(t2, t3, 0, 1, 4, 5), __builtin_shufflevector(t2, t3, 2, 3, 6, 7)};
      for (int x = 0; x < 4; ++x) std::memcpy(out + (j + x) * rows + i, &c[x], sizeof(Four));
    }
}

}  // namespace mylos::kernels::attention::cpu
