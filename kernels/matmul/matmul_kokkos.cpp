#include <cstddef>
#include <cstring>

#include "base/error.hpp"
#include "kernels/matmul/providers.hpp"
#include "tensor/detail/exec.hpp"

namespace mylos::kernels::detail {
namespace {

using Policy = Kokkos::TeamPolicy<Exec>;
using Member = Policy::member_type;
using Rows = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
using Scratch = Kokkos::View<float*, Exec::scratch_memory_space, Kokkos::MemoryUnmanaged>;

constexpr int kTile = 64;   // C is made in tiles of 64 x 64,
constexpr int kDepth = 16;  // 16 of L at a time (24 KiB in all: a team on the CPU has 32),
constexpr int kMicro = 4;   // each thread 4 x 4 of it.
constexpr int kMicros = (kTile / kMicro) * (kTile / kMicro);
constexpr int kScratch = kTile * kTile + 2 * kTile * kDepth;

// op(X)[row, column] of a stored matrix.
template <class T>
struct Operand {
  const T* data;
  std::int64_t row_step, column_step;
  KOKKOS_FUNCTION float operator()(std::int64_t row, std::int64_t column) const {
    return float(data[row * row_step + column * column_step]);
  }
};

template <class In>
Operand<In> operand(const StoredMatrix& x, bool transposed) {
  return {static_cast<const In*>(x.data), transposed ? 1 : x.stride, transposed ? x.stride : 1};
}

// Tiles of A and B are widened into scratch memory once and used 64 times; sums stay in scratch in fp32 until the end.
template <class In, class Out>
struct TiledProduct {
  Operand<In> a, b;
  Out* c;
  const Out* z;
  std::int64_t c_stride, z_stride, m, n, l, tiles_n;
  float alpha, beta;

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t row0 = team.league_rank() / tiles_n * kTile, column0 = team.league_rank() % tiles_n * kTile;
    const Scratch memory(team.team_scratch(0), kScratch);
    float* const sums = memory.data();              // [64, 64]
    float* const tile_a = sums + kTile * kTile;     // [16, 64], L outermost
    float* const tile_b = tile_a + kTile * kDepth;  // [16, 64]
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, kTile * kTile), [&](int i) { sums[i] = 0.0f; });
    for (std::int64_t l0 = 0; l0 < l; l0 += kDepth) {
      const int depth = int(l - l0 < kDepth ? l - l0 : kDepth);
      team.team_barrier();
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, kTile * depth), [&](int i) {
        const int k = i / kTile, x = i % kTile;
        tile_a[i] = row0 + x < m ? a(row0 + x, l0 + k) : 0.0f;
        tile_b[i] = column0 + x < n ? b(l0 + k, column0 + x) : 0.0f;
      });
      team.team_barrier();
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, kMicros), [&](int micro) {
        const int r = micro / (kTile / kMicro) * kMicro, q = micro % (kTile / kMicro) * kMicro;
        float sum[kMicro][kMicro] = {};
        for (int k = 0; k < depth; ++k)
          for (int i = 0; i < kMicro; ++i)
            for (int j = 0; j < kMicro; ++j) sum[i][j] += tile_a[k * kTile + r + i] * tile_b[k * kTile + q + j];
        for (int i = 0; i < kMicro; ++i)
          for (int j = 0; j < kMicro; ++j) sums[(r + i) * kTile + q + j] += sum[i][j];
      });
    }
    team.team_barrier();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, kTile * kTile), [&](int i) {
      const std::int64_t row = row0 + i / kTile, column = column0 + i % kTile;
      if (row >= m || column >= n) return;
      c[row * c_stride + column] =
          Out(beta == 0.0f ? alpha * sums[i] : alpha * sums[i] + beta * float(z[row * z_stride + column]));
    });
  }
};

template <class In, class Out>
void run_tiled(const Stream& stream, const Product& p) {
  const std::int64_t tiles_m = (p.m + kTile - 1) / kTile, tiles_n = (p.n + kTile - 1) / kTile;
  check_plain(tiles_m <= INT32_MAX / tiles_n,
              "matmul: the reference kernel takes at most 2^31 tiles of 64 x 64; slice the product");
  const TiledProduct<In, Out> kernel{operand<In>(p.a, p.transpose_a),
                                     operand<In>(p.b, p.transpose_b),
                                     static_cast<Out*>(p.c.data),
                                     static_cast<const Out*>(p.z.data),
                                     p.c.stride,
                                     p.z.stride,
                                     p.m,
                                     p.n,
                                     p.l,
                                     tiles_n,
                                     p.alpha,
                                     p.beta};
  Policy policy(exec_of(stream), int(tiles_m * tiles_n), kOnGpu ? kMicros : 1);
  policy.set_scratch_size(0, Kokkos::PerTeam(int(Scratch::shmem_size(kScratch))));
  Kokkos::parallel_for("mylos::matmul::reference", policy, kernel);
}

template <class T>
void scale_rows(const Stream& stream, const Product& p) {
  T* const c = static_cast<T*>(p.c.data);
  const T* const z = static_cast<const T*>(p.z.data);
  const std::int64_t n = p.n, stride = p.c.stride, z_stride = p.z.stride;
  const float beta = p.beta;
  Kokkos::parallel_for(
      "mylos::matmul::scale", Rows(exec_of(stream), 0, p.m * n), KOKKOS_LAMBDA(std::int64_t i) {
        c[i / n * stride + i % n] = T(beta == 0.0f ? 0.0f : beta * float(z[i / n * z_stride + i % n]));
      });
}

}  // namespace

bool on_gpu() { return kOnGpu; }

int device_index() {
#if defined(KOKKOS_ENABLE_CUDA)
  return Exec().cuda_device();
#else
  return 0;
#endif
}

void reference_product(const Stream& stream, const Product& p) {
  const bool in16 = p.in == DType::bf16, out16 = p.out == DType::bf16;
  if (in16 && out16)
    run_tiled<bf16, bf16>(stream, p);
  else if (in16)
    run_tiled<bf16, float>(stream, p);
  else if (out16)
    run_tiled<float, bf16>(stream, p);
  else
    run_tiled<float, float>(stream, p);
}

void scale(const Stream& stream, const Product& p) {
  if (p.out == DType::bf16)
    scale_rows<bf16>(stream, p);
  else
    scale_rows<float>(stream, p);
}

Product with_addend_in_place(const Stream& stream, Product p) {
  if (p.beta != 0.0f && p.z.data != p.c.data) {
    const std::byte* const z = static_cast<const std::byte*>(p.z.data);
    std::byte* const c = static_cast<std::byte*>(p.c.data);
    const std::int64_t size = size_of(p.out), row = p.n * size, from = p.z.stride * size, to = p.c.stride * size;
    Kokkos::parallel_for(
        "mylos::matmul::addend", Rows(exec_of(stream), 0, p.m),
        KOKKOS_LAMBDA(std::int64_t r) { std::memcpy(c + r * to, z + r * from, std::size_t(row)); });
  }
  p.z = p.c;
  return p;
}

void widen_panel(const Stream& stream, StoredMatrix source, std::int64_t rows, std::int64_t columns, float* panel) {
  const bf16* const x = static_cast<const bf16*>(source.data);
  const std::int64_t stride = source.stride;
  Kokkos::parallel_for(
      "mylos::matmul::widen", Rows(exec_of(stream), 0, rows), KOKKOS_LAMBDA(std::int64_t r) {
        const bf16* const from = x + r * stride;
        float* const to = panel + r * columns;
        for (std::int64_t i = 0; i < columns; ++i) to[i] = float(from[i]);
      });
}

void narrow_panel(const Stream& stream, const float* panel, std::int64_t rows, std::int64_t columns, float beta,
                  StoredMatrix addend, StoredMatrix target) {
  bf16* const c = static_cast<bf16*>(target.data);
  const bf16* const z = static_cast<const bf16*>(addend.data);
  const std::int64_t stride = target.stride, z_stride = addend.stride;
  Kokkos::parallel_for(
      "mylos::matmul::narrow", Rows(exec_of(stream), 0, rows), KOKKOS_LAMBDA(std::int64_t r) {
        const float* const from = panel + r * columns;
        const bf16* const add = z + r * z_stride;
        bf16* const to = c + r * stride;
        if (beta == 0.0f)
          for (std::int64_t i = 0; i < columns; ++i) to[i] = bf16(from[i]);
        else
          for (std::int64_t i = 0; i < columns; ++i) to[i] = bf16(from[i] + beta * float(add[i]));
      });
}

}  // namespace mylos::kernels::detail
