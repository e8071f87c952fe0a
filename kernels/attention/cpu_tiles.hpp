// What forward and backward of the CPU provider share: packing of strided f32 or bf16 rows into fp32 tiles, the packed
// keys and values of a whole call, the mask, and the layout of the workspace.
//
// Scores live transposed, [keys, queries], with queries in the vector lanes: the softmax over keys is then a loop over
// rows without any reduction across lanes, and keys and values are read in their natural order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/host_parallel.hpp"
#include "kernels/attention/providers.hpp"
#include "kernels/attention/vector_math.hpp"

namespace mylos::kernels::attention::cpu {

inline constexpr std::int64_t kTile =
    64;  // queries or keys of a tile: 64 x 64 scores are 16 KiB, a third of an L1 cache
inline constexpr std::int64_t kAlign = 64;
inline constexpr double kLog2E = 1.4426950408889634;

inline std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

struct Extents {
  std::int64_t tiles;   // of kTile tokens in a sequence
  std::int64_t tokens;  // padded to whole tiles
  std::int64_t width;   // head size padded to whole vectors (16 lanes whatever the build, so that workspaces agree)
  explicit Extents(const AttentionShape& s)
      : tiles((s.sequence + kTile - 1) / kTile), tokens(tiles * kTile), width(round_up(s.head_size, 16)) {}
  std::int64_t head_floats() const { return tokens * width; }
};

// Hands out aligned pieces of the workspace; on a null base it only counts, so planning and using cannot disagree.
class Carver {
 public:
  explicit Carver(void* base)
      : base_(base),
        begin_(std::int64_t(reinterpret_cast<std::uintptr_t>(base) % kAlign)),
        used_((kAlign - begin_) % kAlign) {}
  template <class T>
  T* take(std::int64_t n) {
    const std::int64_t at = used_;
    used_ = round_up(used_ + begin_ + n * std::int64_t(sizeof(T)), kAlign) - begin_;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(static_cast<char*>(base_) + at);
  }
  // Enough for a base of any alignment.
  std::int64_t bytes() const { return used_ + kAlign; }

 private:
  void* base_;
  std::int64_t begin_, used_;
};

template <class T>
T* row_of(const Window& w, std::int64_t batch, std::int64_t head, std::int64_t token) {
  return static_cast<T*>(w.data) + batch * w.batch + head * w.head + token * w.token;
}

// rows x h of w from `token` on, times `factor`, to [kTile, width], padded with zeros.
template <class T>
void pack_rows(const Window& w, std::int64_t batch, std::int64_t head, std::int64_t token, std::int64_t rows,
               std::int64_t h, std::int64_t width, float factor, float* out) {
  for (std::int64_t i = 0; i < kTile; ++i) {
    float* o = out + i * width;
    std::int64_t d = 0;
    if (i < rows) {
      const T* from = row_of<const T>(w, batch, head, token + i);
      for (; d < h; ++d) o[d] = float(from[d]) * factor;
    }
    for (; d < width; ++d) o[d] = 0.0f;
  }
}

template <class T>
void unpack_rows(const float* in, std::int64_t width, float factor, const Window& w, std::int64_t batch,
                 std::int64_t head, std::int64_t token, std::int64_t rows, std::int64_t h) {
  for (std::int64_t i = 0; i < rows; ++i) {
    T* to = row_of<T>(w, batch, head, token + i);
    for (std::int64_t d = 0; d < h; ++d) to[d] = T(in[i * width + d] * factor);
  }
}

// [rows, columns] to [columns, rows], both multiples of 4 and dense, by blocks of 4 x 4 in registers.
void transpose(const float* in, std::int64_t rows, std::int64_t columns, float* out);

// All keys and values as fp32 [B, K, tokens, width].
struct PackedKeys {
  float* k;
  float* v;
  PackedKeys(Carver& carver, const AttentionShape& s, const Extents& e)
      : k(carver.take<float>(s.batch * s.kv_heads * e.head_floats())),
        v(carver.take<float>(s.batch * s.kv_heads * e.head_floats())) {}
};

template <class T>
void pack_keys(const Stream& stream, const char* label, const Arguments& a, const Extents& e,
               const PackedKeys& packed) {
  const AttentionShape& s = a.shape;
  host_parallel(stream, label, s.batch * s.kv_heads * e.tiles, [&](std::int64_t task, int) {
    const std::int64_t head = task / e.tiles, token = task % e.tiles * kTile;
    const std::int64_t rows = std::min(kTile, s.sequence - token), at = task * kTile * e.width;
    pack_rows<T>(a.k, head / s.kv_heads, head % s.kv_heads, token, rows, s.head_size, e.width, 1.0f, packed.k + at);
    pack_rows<T>(a.v, head / s.kv_heads, head % s.kv_heads, token, rows, s.head_size, e.width, 1.0f, packed.v + at);
  });
}

// What a tile of queries can see: first key of each query (its document's first token; the queries that pad the last
// tile repeat the last real one) and whether a tile of keys needs the mask at all.
struct Visible {
  std::int32_t* first;  // [kTile]
  std::int64_t query;   // position of the tile's first query

  void read(const Arguments& a, std::int64_t batch) const {
    const std::int64_t last = a.shape.sequence - 1;
    for (std::int64_t i = 0; i < kTile; ++i)
      first[i] =
          a.document_start == nullptr ? 0 : a.document_start[batch * a.shape.sequence + std::min(query + i, last)];
  }
  std::int64_t first_tile() const { return first[0] / kTile; }
  bool masks(std::int64_t key_tile) const {
    return key_tile * kTile + kTile - 1 > query || key_tile * kTile < first[kTile - 1];
  }
  // All ones in the lanes of the queries, from `column` of the tile on, that see key j.
  IntVec sees(std::int64_t column, std::int64_t j) const {
    IntVec position;
    for (int l = 0; l < kLanes; ++l) position[l] = std::int32_t(query + column) + l;
    return (load(first + column) <= splat(std::int32_t(j))) & (position >= splat(std::int32_t(j)));
  }
};

}  // namespace mylos::kernels::attention::cpu
