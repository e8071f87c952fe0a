#include <cmath>

#include "kernels/attention/cpu_tiles.hpp"
#include "kernels/attention/tile_product.hpp"

namespace mylos::kernels::attention::cpu {
namespace {

// A task owns one key/value head, or one of `parts` equal shares of its query tiles when the heads alone would leave
// threads idle for more than a tenth of the time. It sums dk and dv over its query tiles in a fixed order, and finishes
// each of its dq tiles alone. With one part the sums live in the thread's space; with more each task has its own, and a
// second pass adds them in a fixed order.
struct Split {
  std::int64_t heads, parts, tasks, sums;
  Split(const AttentionShape& s, const Extents& e, int threads)
      : heads(s.batch * s.kv_heads),
        parts(parts_for(heads, e.tiles * (s.heads / s.kv_heads), threads)),
        tasks(heads * parts),
        sums(parts == 1 ? threads : tasks) {}

  static std::int64_t parts_for(std::int64_t heads, std::int64_t most, std::int64_t threads) {
    std::int64_t parts = std::min(most, (threads + heads - 1) / heads);
    while (parts < most && 10 * heads * parts < 9 * round_up(heads * parts, threads)) ++parts;
    return parts;
  }
};

struct ThreadSpace {
  float *rows, *q_rows, *dout_rows, *q, *dout, *p, *ds, *dq, *lse, *delta;
  std::int32_t* first;
  ThreadSpace(Carver& carver, std::int64_t width)
      : rows(carver.take<float>(kTile * width)),
        q_rows(carver.take<float>(kTile * width)),
        dout_rows(carver.take<float>(kTile * width)),
        q(carver.take<float>(width * kTile)),
        dout(carver.take<float>(width * kTile)),
        p(carver.take<float>(kTile * kTile)),
        ds(carver.take<float>(kTile * kTile)),
        dq(carver.take<float>(width * kTile)),
        lse(carver.take<float>(kTile)),
        delta(carver.take<float>(kTile)),
        first(carver.take<std::int32_t>(kTile)) {}
};

std::int64_t thread_bytes(std::int64_t width) {
  Carver carver(nullptr);
  ThreadSpace space(carver, width);
  return round_up(carver.bytes(), kAlign);
}

struct Layout {
  PackedKeys packed;
  char* threads;
  float* sums;  // [split.sums, 2 (dk, dv), tokens, width]
  Layout(Carver& carver, const AttentionShape& s, const Extents& e, const Split& split, int thread_count)
      : packed(carver, s, e),
        threads(carver.take<char>(thread_count * thread_bytes(e.width))),
        sums(carver.take<float>(split.sums * 2 * e.head_floats())) {}
};

// delta = sum of dout * out, the part of the softmax's derivative that all keys share.
void row_dots(const float* x, const float* y, std::int64_t width, float* out) {
  for (std::int64_t i = 0; i < kTile; ++i) {
    Vec sum{};
    for (std::int64_t d = 0; d < width; d += kLanes)
      sum = multiply_add(load(x + i * width + d), load(y + i * width + d), sum);
    float total = 0.0f;
    for (int l = 0; l < kLanes; ++l) total += sum[l];
    out[i] = total;
  }
}

// p: scores to probabilities; ds: derivative by p to derivative by the scores.
void softmax_gradient_tile(const ThreadSpace& t, const Visible& visible, std::int64_t key_tile) {
  const bool masked = visible.masks(key_tile);
  for (std::int64_t c = 0; c < kTile; c += kLanes) {
    const Vec lse = load(t.lse + c), delta = load(t.delta + c);
    for (std::int64_t j = 0; j < kTile; ++j) {
      const std::int64_t at = j * kTile + c;
      Vec p = exp2_of(load(t.p + at) - lse);
      if (masked) p = visible.sees(c, key_tile * kTile + j) ? p : Vec{};
      store(t.p + at, p);
      store(t.ds + at, p * (load(t.ds + at) - delta));
    }
  }
}

template <class T>
void query_tile(const Arguments& a, const Extents& e, const PackedKeys& packed, const ThreadSpace& t,
                std::int64_t batch, std::int64_t head, std::int64_t tile, float* dk, float* dv) {
  const AttentionShape& s = a.shape;
  const std::int64_t query = tile * kTile, rows = std::min(kTile, s.sequence - query), width = e.width;
  const std::int64_t kv = (batch * s.kv_heads + head / (s.heads / s.kv_heads)) * e.head_floats();
  const double scale = 1.0 / std::sqrt(double(s.head_size));

  const Visible visible{t.first, query};
  visible.read(a, batch);
  pack_rows<T>(a.q, batch, head, query, rows, s.head_size, width, float(kLog2E * scale), t.q_rows);
  pack_rows<T>(a.dout, batch, head, query, rows, s.head_size, width, 1.0f, t.dout_rows);
  pack_rows<T>(a.out, batch, head, query, rows, s.head_size, width, 1.0f, t.rows);
  row_dots(t.dout_rows, t.rows, width, t.delta);
  transpose(t.q_rows, kTile, width, t.q);
  transpose(t.dout_rows, kTile, width, t.dout);
  const float* lse = a.lse + (batch * s.heads + head) * s.sequence + query;
  for (std::int64_t i = 0; i < kTile; ++i) t.lse[i] = i < rows ? float(lse[i] * kLog2E) : 0.0f;
  std::fill_n(t.dq, kTile * width, 0.0f);

  for (std::int64_t j = visible.first_tile(); j <= tile; ++j) {
    const std::int64_t at = j * kTile * width;
    const float *k = packed.k + kv + at, *v = packed.v + kv + at;
    tile_product<false, Into::overwrite>(kTile, kTile, width, k, width, t.q, kTile, t.p, kTile);
    tile_product<false, Into::overwrite>(kTile, kTile, width, v, width, t.dout, kTile, t.ds, kTile);
    softmax_gradient_tile(t, visible, j);
    tile_product<false, Into::add>(kTile, width, kTile, t.p, kTile, t.dout_rows, width, dv + at, width);
    tile_product<false, Into::add>(kTile, width, kTile, t.ds, kTile, t.q_rows, width, dk + at, width);
    tile_product<true, Into::add>(width, kTile, kTile, k, width, t.ds, kTile, t.dq, kTile);
  }
  transpose(t.dq, width, kTile, t.rows);
  unpack_rows<T>(t.rows, width, float(scale), a.dq, batch, head, query, rows, s.head_size);
}

// q was packed with the factor scale * log2(e): dk needs the scale but not the log2(e).
template <class T>
void write_keys(const Arguments& a, const Extents& e, const float* dk, const float* dv, std::int64_t kv_head,
                std::int64_t token, std::int64_t rows) {
  const AttentionShape& s = a.shape;
  const std::int64_t batch = kv_head / s.kv_heads, head = kv_head % s.kv_heads;
  unpack_rows<T>(dk, e.width, float(1.0 / kLog2E), a.dk, batch, head, token, rows, s.head_size);
  unpack_rows<T>(dv, e.width, 1.0f, a.dv, batch, head, token, rows, s.head_size);
}

template <class T>
void backward_typed(const Stream& stream, const Arguments& a) {
  const AttentionShape& s = a.shape;
  const Extents e(s);
  const int thread_count = device_info().concurrency;
  const Split split(s, e, thread_count);
  Carver carver(a.workspace);
  const Layout layout(carver, s, e, split, thread_count);
  const std::int64_t per_thread = thread_bytes(e.width), group = s.heads / s.kv_heads, sum_floats = e.head_floats();
  pack_keys<T>(stream, "mylos::attention::backward_pack", a, e, layout.packed);

  host_parallel(stream, "mylos::attention::backward", split.tasks, [&](std::int64_t task, int thread) {
    Carver own(layout.threads + thread * per_thread);
    const ThreadSpace t(own, e.width);
    const std::int64_t kv_head = task / split.parts, part = task % split.parts;
    float* const dk = layout.sums + (split.parts == 1 ? thread : task) * 2 * sum_floats;
    float* const dv = dk + sum_floats;
    std::fill_n(dk, 2 * sum_floats, 0.0f);
    for (std::int64_t unit = part; unit < group * e.tiles; unit += split.parts)
      query_tile<T>(a, e, layout.packed, t, kv_head / s.kv_heads, kv_head % s.kv_heads * group + unit / e.tiles,
                    unit % e.tiles, dk, dv);
    if (split.parts == 1) write_keys<T>(a, e, dk, dv, kv_head, 0, s.sequence);
  });

  if (split.parts == 1) return;
  host_parallel(stream, "mylos::attention::backward_sum", split.heads * e.tiles, [&](std::int64_t task, int) {
    const std::int64_t kv_head = task / e.tiles, token = task % e.tiles * kTile, n = kTile * e.width;
    float* const first = layout.sums + kv_head * split.parts * 2 * sum_floats + token * e.width;
    for (float* total : {first, first + sum_floats})
      for (std::int64_t part = 1; part < split.parts; ++part) {
        const float* more = total + part * 2 * sum_floats;
        for (std::int64_t i = 0; i < n; i += kLanes) store(total + i, load(total + i) + load(more + i));
      }
    write_keys<T>(a, e, first, first + sum_floats, kv_head, token, std::min(kTile, s.sequence - token));
  });
}

}  // namespace

std::int64_t backward_workspace_bytes(const AttentionShape& shape, int threads) {
  const Extents e(shape);
  Carver carver(nullptr);
  Layout layout(carver, shape, e, Split(shape, e, threads), threads);
  return carver.bytes();
}

void backward(const Stream& stream, const Arguments& a) {
  a.dtype == DType::bf16 ? backward_typed<bf16>(stream, a) : backward_typed<float>(stream, a);
}

}  // namespace mylos::kernels::attention::cpu
