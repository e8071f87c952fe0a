// Attention on tensor cores, forward: a team a tile of 64 queries, which walks over the tiles of keys that some query sees,
// with an online softmax (Dao et al. 2022, 2023). The next tile is on its way while one is worked on.
#include "kernels/attention/document_tiles.hpp"

namespace mylos::kernels::attention::tiles {
namespace {

template <int kWidth>
struct Forward {
  static constexpr int kScratch = 5 * Tile<kWidth>::kBytes;
  Problem<kWidth> p;

  struct State {
    Sums<kWidth / 8> out;
    float maximum[2][kOwnLanes], sum[2][kOwnLanes];  // of rows l / 4 and l / 4 + 8; of the sum the lane's own part
    int start[2][kOwnLanes];
    int first_start, last_start;
  };

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t tile = p.tiles - 1 - team.league_rank() % p.tiles;
    const std::int64_t head = team.league_rank() / p.tiles % p.a.shape.heads,
                       batch = team.league_rank() / p.tiles / p.a.shape.heads;
    const std::int64_t kv = head / p.group, query = tile * kTile, first = p.start(batch, query) / kTile;
    auto* const scratch = reinterpret_cast<bf16*>(scratch_of(team, kScratch));
    const auto tile_at = [&](int i) { return Tile<kWidth>{scratch + i * kTile * kWidth}; };
    const auto copy_keys = [&](std::int64_t j) {
      const int stage = int(j - first) % 2;
      p.copy(team, p.a.k, batch, kv, j, tile_at(1 + stage));
      p.copy(team, p.a.v, batch, kv, j, tile_at(3 + stage));
    };
    p.copy(team, p.a.q, batch, head, tile, tile_at(0));
    copy_keys(first);
    detail::end_group();
    State states[kOwnWarps];
    each_warp(team, [&](const Warp& warp, int w) { begin(warp, batch, query, states[w]); });
    for (std::int64_t j = first; j <= tile; ++j) {
      if (j < tile) copy_keys(j + 1);
      detail::end_group();
      detail::wait_for_groups<1>();
      team.team_barrier();
      const int stage = int(j - first) % 2;
      each_warp(team, [&](const Warp& warp, int w) {
        step(warp, tile_at(0), tile_at(1 + stage), tile_at(3 + stage), query, j * kTile, states[w]);
      });
      team.team_barrier();
    }
    each_warp(team, [&](const Warp& warp, int w) {
      State& s = states[w];
      for (int half = 0; half < 2; ++half) join_row(s.sum[half], [](float x, float y) { return x + y; });
      p.write(
          warp, s.out, [&](int o, int half) { return 1.0f / s.sum[half][o]; }, tile_at(0), p.a.out, batch, head, tile);
      for (int o = 0; o < kOwnLanes; ++o)
        for (int half = 0; half < 2; ++half) {
          const std::int64_t q = query + row_of(warp, o, half);
          if (warp.lane(o) % 4 == 0 && q < p.a.shape.sequence)
            p.a.lse[p.line(batch, head) + q] = s.maximum[half][o] * p.scale + Kokkos::log(s.sum[half][o]);
        }
    });
  }

  KOKKOS_FUNCTION void begin(const Warp& warp, std::int64_t batch, std::int64_t query, State& s) const {
    clear<kWidth / 8>(s.out);
    for (int o = 0; o < kOwnLanes; ++o)
      for (int half = 0; half < 2; ++half) {
        s.maximum[half][o] = -INFINITY;
        s.sum[half][o] = 0.0f;
        s.start[half][o] = p.start(batch, query + row_of(warp, o, half));
      }
    s.first_start = p.start(batch, query + warp.row());
    s.last_start = p.start(batch, query + warp.row() + 15);
  }

  KOKKOS_FUNCTION void step(const Warp& warp, const Tile<kWidth>& q, const Tile<kWidth>& k, const Tile<kWidth>& v,
                            std::int64_t query, std::int64_t key, State& s) const {
    const Sight sight = sight_of_queries(s.first_start, s.last_start, query + warp.row(), key);
    if (sight.pairs.first >= sight.pairs.end) return;
    constexpr int kBlocks = kTile / 8;
    Sums<kBlocks> x;
    multiply_rows<kBlocks>(warp, q, k, 0, sight.pairs, x);
    float top[2][kOwnLanes];
    for (int o = 0; o < kOwnLanes; ++o)
      for (int half = 0; half < 2; ++half) {
        top[half][o] = s.maximum[half][o];
        const int row = int(query - key) + row_of(warp, o, half), from = int(s.start[half][o] - key);
        MYLOS_UNROLLED
        for (int n = 0; n < kBlocks; ++n)
          for (int e = 0; e < 2; ++e) {
            const int column = 8 * n + warp.lane(o) % 4 * 2 + e;
            float& score = x[o][n][2 * half + e];
            if (sight.partial && (column > row || column < from)) score = -INFINITY;
            top[half][o] = score > top[half][o] ? score : top[half][o];
          }
      }
    for (int half = 0; half < 2; ++half) join_row(top[half], [](float a, float b) { return a > b ? a : b; });
    const float to_log2 = p.scale * kLog2e;
    for (int o = 0; o < kOwnLanes; ++o)
      for (int half = 0; half < 2; ++half) {
        // A row may have seen no key yet.
        const float base = top[half][o] == -INFINITY ? 0.0f : top[half][o] * to_log2;
        const float shrink = exp2_of(s.maximum[half][o] * to_log2 - base);
        s.maximum[half][o] = top[half][o];
        float sum = s.sum[half][o] * shrink;
        MYLOS_UNROLLED
        for (int n = 0; n < kBlocks; ++n)
          for (int e = 0; e < 2; ++e) {
            float& weight = x[o][n][2 * half + e];
            weight = exp2_of(weight * to_log2 - base);
            sum += weight;
          }
        s.sum[half][o] = sum;
        MYLOS_UNROLLED
        for (int n = 0; n < kWidth / 8; ++n)
          for (int e = 0; e < 2; ++e) s.out[o][n][2 * half + e] *= shrink;
      }
    add_rows<kBlocks>(warp, x, v, 0, sight.pairs, s.out);
  }
};

template <int kWidth>
void run(const Stream& stream, const Arguments& a) {
  const Problem<kWidth> p(a);
  launch<kWidth == 64 ? 3 : 2>(stream, "mylos::attention::tiles_forward", a.shape.batch * a.shape.heads * p.tiles,
                               Forward<kWidth>::kScratch, Forward<kWidth>{p});
}

}  // namespace

void forward(const Stream& stream, const Arguments& a) {
  a.shape.head_size == 64 ? run<64>(stream, a) : run<128>(stream, a);
}

}  // namespace mylos::kernels::attention::tiles
