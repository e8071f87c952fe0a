#include <cmath>
#include <limits>

#include "kernels/attention/cpu_tiles.hpp"
#include "kernels/attention/tile_product.hpp"

namespace mylos::kernels::attention::cpu {

std::int64_t backward_workspace_bytes(const AttentionShape& shape, int threads);

namespace {

constexpr float kNegative =
    -std::numeric_limits<float>::max();  // a maximum over nothing; finite, so that differences are no NaN

struct ThreadSpace {
  float *rows, *q, *scores, *out, *maximum, *sum, *rescale;
  std::int32_t* first;
  ThreadSpace(Carver& carver, std::int64_t width)
      : rows(carver.take<float>(kTile * width)),
        q(carver.take<float>(width * kTile)),
        scores(carver.take<float>(kTile * kTile)),
        out(carver.take<float>(width * kTile)),
        maximum(carver.take<float>(kTile)),
        sum(carver.take<float>(kTile)),
        rescale(carver.take<float>(kTile)),
        first(carver.take<std::int32_t>(kTile)) {}
};

std::int64_t thread_bytes(std::int64_t width) {
  Carver carver(nullptr);
  ThreadSpace space(carver, width);
  return round_up(carver.bytes(), kAlign);
}

// Turns scores (in units of log 2) into probabilities relative to the running maximum, and keeps maximum, sum and the
// factor by which older results shrink.
void softmax_tile(const ThreadSpace& t, const Visible& visible, std::int64_t key_tile) {
  const bool masked = visible.masks(key_tile);
  for (std::int64_t c = 0; c < kTile; c += kLanes) {
    float* s = t.scores + c;
    if (masked)
      for (std::int64_t j = 0; j < kTile; ++j)
        store(s + j * kTile, visible.sees(c, key_tile * kTile + j) ? load(s + j * kTile)
                                                                   : splat(-std::numeric_limits<float>::infinity()));
    const Vec old = load(t.maximum + c);
    Vec m[4] = {old, old, old, old};  // four chains: the latency of max is four cycles
    for (std::int64_t j = 0; j < kTile; j += 4)
      for (int x = 0; x < 4; ++x) {
        const Vec v = load(s + (j + x) * kTile);
        m[x] = v > m[x] ? v : m[x];
      }
    for (int x = 1; x < 4; ++x) m[0] = m[x] > m[0] ? m[x] : m[0];
    const Vec shrink = exp2_of(old - m[0]);
    Vec sum = load(t.sum + c) * shrink;
    for (std::int64_t j = 0; j < kTile; ++j) {
      const Vec p = exp2_of(load(s + j * kTile) - m[0]);
      store(s + j * kTile, p);
      sum = sum + p;
    }
    store(t.maximum + c, m[0]);
    store(t.sum + c, sum);
    store(t.rescale + c, shrink);
  }
}

template <class T>
void forward_typed(const Stream& stream, const Arguments& a) {
  const AttentionShape& s = a.shape;
  const Extents e(s);
  Carver carver(a.workspace);
  const PackedKeys packed(carver, s, e);
  const std::int64_t per_thread = thread_bytes(e.width);
  char* const threads = carver.take<char>(device_info().concurrency * per_thread);
  pack_keys<T>(stream, "mylos::attention::forward_pack", a, e, packed);

  host_parallel(stream, "mylos::attention::forward", s.batch * s.heads * e.tiles, [&](std::int64_t task, int thread) {
    Carver own(threads + thread * per_thread);
    const ThreadSpace t(own, e.width);
    const std::int64_t tile = e.tiles - 1 - task % e.tiles;  // the longest rows first
    const std::int64_t head = task / e.tiles % s.heads, batch = task / e.tiles / s.heads;
    const std::int64_t query = tile * kTile, rows = std::min(kTile, s.sequence - query);
    const std::int64_t kv = (batch * s.kv_heads + head / (s.heads / s.kv_heads)) * e.head_floats();

    const Visible visible{t.first, query};
    visible.read(a, batch);
    pack_rows<T>(a.q, batch, head, query, rows, s.head_size, e.width, float(kLog2E / std::sqrt(double(s.head_size))),
                 t.rows);
    transpose(t.rows, kTile, e.width, t.q);
    std::fill_n(t.maximum, kTile, kNegative);
    std::fill_n(t.sum, kTile, 0.0f);
    std::fill_n(t.out, kTile * e.width, 0.0f);

    for (std::int64_t j = visible.first_tile(); j <= tile; ++j) {
      const std::int64_t at = kv + j * kTile * e.width;
      tile_product<false, Into::overwrite>(kTile, kTile, e.width, packed.k + at, e.width, t.q, kTile, t.scores, kTile);
      softmax_tile(t, visible, j);
      tile_product<true, Into::scale_then_add>(e.width, kTile, kTile, packed.v + at, e.width, t.scores, kTile, t.out,
                                               kTile, t.rescale);
    }

    for (std::int64_t c = 0; c < kTile; c += kLanes) {
      const Vec inverse = splat(1.0f) / load(t.sum + c);
      for (std::int64_t d = 0; d < e.width; ++d) store(t.out + d * kTile + c, load(t.out + d * kTile + c) * inverse);
    }
    transpose(t.out, e.width, kTile, t.rows);
    unpack_rows<T>(t.rows, e.width, 1.0f, a.out, batch, head, query, rows, s.head_size);
    float* lse = a.lse + (batch * s.heads + head) * s.sequence + query;
    for (std::int64_t i = 0; i < rows; ++i) lse[i] = float(double(t.maximum[i]) / kLog2E) + std::log(t.sum[i]);
  });
}

}  // namespace

std::int64_t workspace_bytes(const AttentionShape& shape, bool backward, int threads) {
  if (backward) return backward_workspace_bytes(shape, threads);
  const Extents e(shape);
  Carver carver(nullptr);
  PackedKeys packed(carver, shape, e);
  carver.take<char>(threads * thread_bytes(e.width));
  return carver.bytes();
}

void forward(const Stream& stream, const Arguments& a) {
  a.dtype == DType::bf16 ? forward_typed<bf16>(stream, a) : forward_typed<float>(stream, a);
}

}  // namespace mylos::kernels::attention::cpu
