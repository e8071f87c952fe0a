#include "kernels/muon/symmetric_product.hpp"

#include "base/error.hpp"
#include "kernels/muon/muon_device.hpp"
#include "kernels/muon/symmetric_tiles.hpp"

namespace mylos::kernels::detail {
namespace {

struct Halves {
  Tensor first, second;
  std::int64_t step;  // elements from one to the other
};

Halves halves_of(const Tensor& t, int dim) {
  const std::int64_t h = t.extent(dim) / 2;
  return {t.slice(dim, 0, h), t.slice(dim, h, 2 * h), dim == 0 ? h * t.stride(0) : h};
}

}  // namespace

Mirrored best_mirroring([[maybe_unused]] const Tensor& a, [[maybe_unused]] const Tensor& b,
                        [[maybe_unused]] const MatmulOptions& options, const Batch& batch, const Tensor& c) {
#if defined(MYLOS_SYMMETRIC_TILES)
  if (device::symmetric_tiles_take(a, b, options, batch, c)) return Mirrored::tiles;
#endif
  const std::int64_t s = c.extent(0);  // halves keep the alignment that fast products want
  return batch.count == 1 && s >= kHalvesFrom && s % 256 == 0 ? Mirrored::halves : Mirrored::no;
}

void symmetric_product(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                       const Batch& batch, Mirrored how, const Tensor& workspace, const Tensor& c) {
  if (how == Mirrored::no) return matmul_batched(stream, a, b, options, batch, workspace, c);
  if (how != Mirrored::halves) {
#if defined(MYLOS_SYMMETRIC_TILES)
    check(device::symmetric_tiles_take(a, b, options, batch, c), "symmetric_product: no tiles for {} x {} -> {}",
          a.describe(), b.describe(), c.describe());
    const int side = how == Mirrored::tiles       ? device::symmetric_tile_side(c, batch.count)
                     : how == Mirrored::tiles_192 ? 192
                                                  : 128;
    return device::symmetric_tiles(stream, a, b, options, batch, c, side);
#else
    check(false, "symmetric_product: tiles need a CUDA build for Hopper; use halves");
#endif
  }
  const std::int64_t s = c.extent(0), h = s / 2, corner = h * (s + 1);
  check(batch.count == 1 && s % 2 == 0 && c.is_dense(),
        "symmetric_product: {} x {} in halves; they need an even side, a dense matrix and a batch of one", batch.count,
        c.describe());
  const Halves rows = halves_of(a, options.a == Transpose::no ? 0 : 1),
               columns = halves_of(b, options.b == Transpose::yes ? 0 : 1);
  const auto block = [&](const Tensor& t, std::int64_t row) { return t.slice(0, row, row + h).slice(1, 0, h); };
  MatmulOptions diagonal = options, below = options;
  if (options.addend) {
    diagonal.addend = block(options.addend, 0);
    below.addend = block(options.addend, h);
  }
  matmul_batched(stream, rows.first, columns.first, diagonal,
                 {.count = 2, .a = rows.step, .b = columns.step, .c = corner, .z = corner}, workspace, block(c, 0));
  matmul(stream, rows.second, columns.first, below, workspace, block(c, h));
  device::mirror_below(stream, c);
}

}  // namespace mylos::kernels::detail
