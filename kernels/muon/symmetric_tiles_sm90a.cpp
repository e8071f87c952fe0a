#include <cstdint>
#include <type_traits>

#include "kernels/detail/async_copy.hpp"
#include "kernels/detail/hopper.hpp"
#include "kernels/detail/hopper_products.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/muon/symmetric_tiles.hpp"

// A team of two warpgroups has a tile of 128 x 128 sums, each warpgroup 64 rows of it: wgmma.m64n128k16 on operands in shared memory, which
// cp.async brings in slices of 64 along l. Two teams share a multiprocessor, so that one computes while the other waits, begins or ends.
// Operands lie in the 128-byte swizzle: atoms of 8 rows of 128 bytes, piece p of 16 bytes of row r at p ^ r. A row is 64 elements along l, or, for
// operands that are stored [l, s], 64 along s; then the atoms of a slice follow each other along l first.
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions": matrix descriptors and the fragment of D.

namespace mylos::kernels::device {
namespace {

constexpr int kTile = 128, kSlice = 64, kThreads = 256, kStages = 3;
[[maybe_unused]] constexpr int kAtomsAlong = kSlice / 8;  // of a slice along l, where rows run along s
constexpr int kOperandBytes = kTile * kSlice * 2, kStageBytes = 2 * kOperandBytes;
constexpr int kScratch = kStages * kStageBytes + 1024;  // the swizzle wants 1024 bytes of alignment
[[maybe_unused]] constexpr int kRow = kTile + 8;        // of the finished tile: rows begin in different banks

using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, 2>>;

template <bool kAlongS>
struct SymmetricTiles {
  const bf16 *a, *b, *z;
  bf16* c;
  std::int64_t a_step, b_step, z_step, c_step, a_row, b_row, side;
  int slices, tiles, tiles_of_one;  // along l; along s; of a triangle
  float alpha, beta;

  KOKKOS_FUNCTION void operator()([[maybe_unused]] const Policy::member_type& member) const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    const int matrix = member.league_rank() / tiles_of_one, at = member.league_rank() % tiles_of_one;
    int i = int((sqrtf(8.0f * float(at) + 1.0f) - 1.0f) * 0.5f);
    while ((i + 1) * (i + 2) / 2 <= at) ++i;
    while (i * (i + 1) / 2 > at) --i;
    const int j = at - i * (i + 1) / 2, thread = member.team_rank();
    const bf16* const rows = a + matrix * a_step + std::int64_t(i) * kTile * (kAlongS ? 1 : a_row);
    const bf16* const columns = b + matrix * b_step + std::int64_t(j) * kTile * (kAlongS ? 1 : b_row);

    char* const raw = static_cast<char*>(member.team_scratch(0).get_shmem(std::size_t(kScratch)));
    char* const stages = raw + (1024 - std::uint32_t(__cvta_generic_to_shared(raw)) % 1024) % 1024;
    const auto bring = [&](int slice) {
      char* const stage = stages + slice % kStages * kStageBytes;
#pragma unroll
      for (int q = 0; q < kTile * 8 / kThreads; ++q) {
        constexpr int kPieces = (kAlongS ? kTile : kSlice) / 8;  // of a row of the operand in memory
        const int e = thread + q * kThreads, r = e / kPieces, p = e % kPieces,
                  place = (p / 8 * kAtomsAlong + r / 8) * 1024 + r % 8 * 128 + ((p % 8 ^ r % 8) << 4);
        const std::int64_t from = kAlongS ? slice * kSlice + r : r, across = kAlongS ? p * 8 : slice * kSlice + p * 8;
        detail::start_copy(stage + place, rows + from * a_row + across);
        detail::start_copy(stage + kOperandBytes + place, columns + from * b_row + across);
      }
      detail::end_group();
    };

    float d[64];
#pragma unroll
    for (float& x : d) x = 0.0f;
    bring(0);
    const std::uint32_t first = std::uint32_t(__cvta_generic_to_shared(stages));
    for (int slice = 0; slice < slices; ++slice) {
      detail::wait_for_groups<0>();
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      // Behind it this slice is there, and both warpgroups have done with the one before the last, whose place the next one takes.
      member.team_barrier();
      if (slice + 1 < slices) bring(slice + 1);
      const std::uint32_t left = first + slice % kStages * kStageBytes + thread / 128 * (kOperandBytes / 2),
                          right = first + slice % kStages * kStageBytes + kOperandBytes;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < kSlice / 16; ++k) {
        constexpr int kNext = kAlongS ? 2 * 1024 : 32;
        hopper::multiply_add<kAlongS>(d, hopper::descriptor<kAlongS>(left + k * kNext),
                                      hopper::descriptor<kAlongS>(right + k * kNext));
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (float& x : d) asm volatile("" : "+f"(x)::"memory");  // no use of a sum moves above the wait
    member.team_barrier();
    finish(member, reinterpret_cast<bf16*>(stages), d, matrix, i, j);
#endif
  }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // Scales, adds, rounds, and writes the tile and its mirror image, through shared memory so that both go out in runs.
  __device__ void finish(const Policy::member_type& member, bf16* tile, const float (&d)[64], int matrix, int i,
                         int j) const {
    const int thread = member.team_rank(), lane = thread % 32;
    const auto each_piece = [&](const bf16* at, const auto& f) {
#pragma unroll
      for (int q = 0; q < kTile * kTile / 8 / kThreads; ++q) {
        const int e = thread + q * kThreads, r = e / (kTile / 8), p = e % (kTile / 8) * 8;
        f(at + (std::int64_t(i) * kTile + r) * side + j * kTile + p, tile + r * kRow + p);
      }
    };
    if (beta != 0.0f) {
      each_piece(z + matrix * z_step, [](const bf16* memory, bf16* shared) {
        *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(memory);
      });
      member.team_barrier();
    }
    const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int e = 0; e < 64; ++e) {
      bf16& x = tile[(row + (e & 2) * 4) * kRow + e / 4 * 8 + lane % 4 * 2 + (e & 1)];
      x = bf16(beta != 0.0f ? Kokkos::fma(beta, float(x), alpha * d[e]) : alpha * d[e]);
    }
    member.team_barrier();
    each_piece(c + matrix * c_step, [](const bf16* memory, const bf16* shared) {
      *reinterpret_cast<uint4*>(const_cast<bf16*>(memory)) = *reinterpret_cast<const uint4*>(shared);
    });
    if (i == j) return;
      // Neighbouring threads have neighbouring columns, which lie in different banks; each writes 16 elements of what is a row there.
#pragma unroll
    for (int q = 0; q < kTile * kTile / 16 / kThreads; ++q) {
      const int e = thread + q * kThreads, column = e % kTile, r = e / kTile * 16;
      alignas(16) bf16 run[16];
#pragma unroll
      for (int k = 0; k < 16; ++k) run[k] = tile[(r + k) * kRow + column];
      bf16* const to = c + matrix * c_step + (std::int64_t(j) * kTile + column) * side + i * kTile + r;
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(run);
      *reinterpret_cast<uint4*>(to + 8) = *reinterpret_cast<const uint4*>(run + 8);
    }
  }
#endif
};

}  // namespace

bool symmetric_tiles_take(const Tensor& a, const Tensor& b, const MatmulOptions& options, const Batch& batch,
                          const Tensor& c) {
  const Tensor& z = options.addend ? options.addend : c;
  const bool along_s = options.a == Transpose::yes;
  const bool known = along_s == (options.b == Transpose::no) && c.dtype() == DType::bf16 && a.dtype() == DType::bf16 &&
                     b.dtype() == DType::bf16;
  const std::int64_t length = a.extent(along_s ? 0 : 1);
  const bool apart = c.data() != a.data() && c.data() != b.data() && (!options.addend || c.data() != z.data());
  const bool whole = c.extent(0) % kTile == 0 && length % kSlice == 0 && length > 0 && c.is_dense() && z.is_dense();
  return known && apart && whole && hopper::is_hopper() && rows_aligned(a) && rows_aligned(b) && rows_aligned(c) &&
         rows_aligned(z) && (batch.a | batch.b | batch.c | batch.z) % 8 == 0 &&
         (options.beta == 0.0f || options.addend);
}

void symmetric_tiles(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                     const Batch& batch, const Tensor& c) {
  const int tiles = int(c.extent(0) / kTile), of_one = tiles * (tiles + 1) / 2;
  const auto launch = [&]<bool kAlongS>(std::bool_constant<kAlongS>) {
    const SymmetricTiles<kAlongS> body{.a = a.as<bf16>(),
                                       .b = b.as<bf16>(),
                                       .z = options.addend ? options.addend.as<bf16>() : nullptr,
                                       .c = c.as<bf16>(),
                                       .a_step = batch.a,
                                       .b_step = batch.b,
                                       .z_step = batch.z,
                                       .c_step = batch.c,
                                       .a_row = a.stride(0),
                                       .b_row = b.stride(0),
                                       .side = c.extent(0),
                                       .slices = int(a.extent(kAlongS ? 0 : 1) / kSlice),
                                       .tiles = tiles,
                                       .tiles_of_one = of_one,
                                       .alpha = options.alpha,
                                       .beta = options.beta};
    Policy policy(exec_of(stream), int(batch.count) * of_one, kThreads);
    policy.set_scratch_size(0, Kokkos::PerTeam(kScratch));
    Kokkos::parallel_for("mylos::muon::symmetric_tiles", policy, body);
  };
  if (options.a == Transpose::yes)
    launch(std::true_type{});
  else
    launch(std::false_type{});
}

}  // namespace mylos::kernels::device
