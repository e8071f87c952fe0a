// Attention on tensor cores, backward: scores are computed anew twice instead of being added up with atomics. One launch, in
// which a team has either a tile of keys, for dk and dv over the queries that see them, or a tile of queries, for dq; a
// launch before it writes the sums of dout * out.
#include <climits>

#include "kernels/attention/document_tiles.hpp"

namespace mylos::kernels::attention::tiles {
namespace {

template <int kWidth>
struct Delta {
  static constexpr int kPieces = Tile<kWidth>::kPieces, kTogether = kOnGpu ? kPieces : 1, kRows = kThreads / kTogether;
  Problem<kWidth> p;

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t row = std::int64_t(team.league_rank()) * kRows + team.team_rank() / kTogether;
    const AttentionShape& s = p.a.shape;
    const std::int64_t head = row % s.heads, token = row / s.heads % s.sequence, batch = row / s.heads / s.sequence;
    const bool real = batch < s.batch;
    float sum = 0.0f;
    for (int piece = team.team_rank() % kTogether; real && piece < kPieces; piece += kTogether) {
      const bf16* const out = p.at(p.a.out, batch, head, token) + piece * 8;
      const bf16* const dout = p.at(p.a.dout, batch, head, token) + piece * 8;
      Piece x, y;
      x = *reinterpret_cast<const Piece*>(out), y = *reinterpret_cast<const Piece*>(dout);
      for (int i = 0; i < 4; ++i) sum += low(x.words[i]) * low(y.words[i]) + high(x.words[i]) * high(y.words[i]);
    }
    KOKKOS_IF_ON_DEVICE((for (int far = 1; far < kTogether; far *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, far);))
    if (real && team.team_rank() % kTogether == 0) p.delta[p.line(batch, head) + token] = sum;
  }
};

template <int kWidth>
struct Backward {
  // Beside six tiles three values of each query of two tiles.
  static constexpr int kRowBytes = 3 * kTile * 4, kScratch = 6 * Tile<kWidth>::kBytes + 2 * kRowBytes;
  // Columns of a tile whose scores a warp has at a time: more would not leave registers for sums.
  static constexpr int kPart = 32;
  static constexpr int kOwnRows = kOnGpu ? 1 : kTile;

  Problem<kWidth> p;
  int key_teams;

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    auto* const scratch = scratch_of(team, kScratch);
    if (team.league_rank() < key_teams)
      keys(team, scratch, team.league_rank());
    else
      queries(team, scratch, team.league_rank() - key_teams);
  }
  KOKKOS_FUNCTION static Tile<kWidth> tile_at(char* scratch, int i) {
    return {reinterpret_cast<bf16*>(scratch + i * Tile<kWidth>::kBytes)};
  }

  // -- dq --
  struct QueryState {
    Sums<kWidth / 8> dq;
    float lse[2][kOwnLanes], delta[2][kOwnLanes];
    int start[2][kOwnLanes];
    int first_start, last_start;
  };

  KOKKOS_FUNCTION void queries(const Team& team, char* scratch, std::int64_t place) const {
    const std::int64_t tile = p.tiles - 1 - place % p.tiles;
    const std::int64_t head = place / p.tiles % p.a.shape.heads, batch = place / p.tiles / p.a.shape.heads;
    const std::int64_t kv = head / p.group, query = tile * kTile, first = p.start(batch, query) / kTile;
    const auto copy_keys = [&](std::int64_t j) {
      const int stage = int(j - first) % 2;
      p.copy(team, p.a.k, batch, kv, j, tile_at(scratch, 2 + stage));
      p.copy(team, p.a.v, batch, kv, j, tile_at(scratch, 4 + stage));
    };
    p.copy(team, p.a.q, batch, head, tile, tile_at(scratch, 0));
    p.copy(team, p.a.dout, batch, head, tile, tile_at(scratch, 1));
    copy_keys(first);
    detail::end_group();
    QueryState states[kOwnWarps];
    each_warp(team, [&](const Warp& warp, int w) { begin(warp, batch, head, query, states[w]); });
    for (std::int64_t j = first; j <= tile; ++j) {
      if (j < tile) copy_keys(j + 1);
      detail::end_group();
      detail::wait_for_groups<1>();
      team.team_barrier();
      const int stage = int(j - first) % 2;
      each_warp(team, [&](const Warp& warp, int w) {
        query_step(warp, tile_at(scratch, 0), tile_at(scratch, 1), tile_at(scratch, 2 + stage),
                   tile_at(scratch, 4 + stage), query, j * kTile, states[w]);
      });
      team.team_barrier();
    }
    each_warp(team, [&](const Warp& warp, int w) {
      p.write(
          warp, states[w].dq, [&](int, int) { return p.scale; }, tile_at(scratch, 0), p.a.dq, batch, head, tile);
    });
  }

  KOKKOS_FUNCTION void begin(const Warp& warp, std::int64_t batch, std::int64_t head, std::int64_t query,
                             QueryState& s) const {
    clear<kWidth / 8>(s.dq);
    for (int o = 0; o < kOwnLanes; ++o)
      for (int half = 0; half < 2; ++half) {
        const std::int64_t q = query + row_of(warp, o, half);
        const bool real = q < p.a.shape.sequence;
        s.lse[half][o] = real ? p.a.lse[p.line(batch, head) + q] * kLog2e : 0.0f;
        s.delta[half][o] = real ? p.delta[p.line(batch, head) + q] : 0.0f;
        s.start[half][o] = p.start(batch, q);
      }
    s.first_start = p.start(batch, query + warp.row());
    s.last_start = p.start(batch, query + warp.row() + 15);
  }

  KOKKOS_FUNCTION void query_step(const Warp& warp, const Tile<kWidth>& q, const Tile<kWidth>& dout,
                                  const Tile<kWidth>& k, const Tile<kWidth>& v, std::int64_t query, std::int64_t key,
                                  QueryState& s) const {
    const Sight sight = sight_of_queries(s.first_start, s.last_start, query + warp.row(), key);
    MYLOS_UNROLLED
    for (int first = 0; first < kTile; first += kPart) {
      const Pairs pairs{sight.pairs.first - first / 16, sight.pairs.end - first / 16};
      if (pairs.any(kPart / 16)) query_part(warp, q, dout, k, v, int(query - key), key, first, pairs, sight.partial, s);
    }
  }
  // Scores of the warp's queries, `ahead` rows behind the first key, and kPart keys from the tile's row `first`.
  KOKKOS_FUNCTION void query_part(const Warp& warp, const Tile<kWidth>& q, const Tile<kWidth>& dout,
                                  const Tile<kWidth>& k, const Tile<kWidth>& v, int ahead, std::int64_t key, int first,
                                  const Pairs& pairs, bool partial, QueryState& s) const {
    constexpr int kBlocks = kPart / 8;
    Sums<kBlocks> x, dx;
    multiply_rows<kBlocks>(warp, q, k, first, pairs, x);
    multiply_rows<kBlocks>(warp, dout, v, first, pairs, dx);
    for (int o = 0; o < kOwnLanes; ++o)
      for (int half = 0; half < 2; ++half) {
        const int row = ahead + row_of(warp, o, half), from = int(s.start[half][o] - key);
        MYLOS_UNROLLED
        for (int n = 0; n < kBlocks; ++n)
          for (int e = 0; e < 2; ++e) {
            const int column = first + 8 * n + warp.lane(o) % 4 * 2 + e;
            float& score = x[o][n][2 * half + e];
            const bool seen = !partial || (column <= row && column >= from);
            const float weight = seen ? exp2_of(score * p.scale * kLog2e - s.lse[half][o]) : 0.0f;
            score = weight * (dx[o][n][2 * half + e] - s.delta[half][o]);
          }
      }
    add_rows<kBlocks>(warp, x, k, first, pairs, s.dq);
  }

  // -- dk and dv --
  struct KeyState {
    Sums<kWidth / 8> dk, dv;
  };
  struct Rows {  // of a tile of queries, in scratch memory
    float *lse, *delta;
    int* start;
  };
  KOKKOS_FUNCTION static Rows rows_at(char* scratch, int stage) {
    auto* const lse = reinterpret_cast<float*>(scratch + 6 * Tile<kWidth>::kBytes + stage * kRowBytes);
    return {lse, lse + kTile, reinterpret_cast<int*>(lse + 2 * kTile)};
  }
  // The same of the thread's queries, on their way from memory to there.
  struct Ahead {
    float lse[kOwnRows], delta[kOwnRows];
    int start[kOwnRows];
  };
  KOKKOS_FUNCTION void load(const Team& team, std::int64_t batch, std::int64_t head, std::int64_t query,
                            Ahead& ahead) const {
    for (int i = 0; i < kOwnRows; ++i) {
      const std::int64_t q = query + team.team_rank() % kTile + i;
      const bool real = q < p.a.shape.sequence;
      ahead.lse[i] = real ? p.a.lse[p.line(batch, head) + q] * kLog2e : 0.0f;
      ahead.delta[i] = real ? p.delta[p.line(batch, head) + q] : 0.0f;
      ahead.start[i] = real ? p.start(batch, q) : INT_MAX;
    }
  }
  KOKKOS_FUNCTION static void store(const Team& team, const Ahead& ahead, const Rows& to) {
    for (int i = 0; team.team_rank() < kTile && i < kOwnRows; ++i) {
      const int row = team.team_rank() + i;
      to.lse[row] = ahead.lse[i], to.delta[row] = ahead.delta[i], to.start[row] = ahead.start[i];
    }
  }

  // How many tiles of queries, from its own, see some key of a tile.
  KOKKOS_FUNCTION int tiles_that_see(const Team& team, std::int64_t batch, std::int64_t tile) const {
    int n = 0, of_these = kThreads;
    while (of_these == kThreads) {
      const std::int64_t j = tile + n + team.team_rank();
      of_these = j < p.tiles && p.start(batch, j * kTile) < (tile + 1) * kTile ? 1 : 0;
      team.team_reduce(Kokkos::Sum<int>(of_these));
      n += of_these;
    }
    return n;
  }

  KOKKOS_FUNCTION void keys(const Team& team, char* scratch, std::int64_t place) const {
    const std::int64_t tile = place % p.tiles, kv = place / p.tiles % p.a.shape.kv_heads,
                       batch = place / p.tiles / p.a.shape.kv_heads;
    p.copy(team, p.a.k, batch, kv, tile, tile_at(scratch, 0));
    p.copy(team, p.a.v, batch, kv, tile, tile_at(scratch, 1));
    const int see = tiles_that_see(team, batch, tile), steps = see * p.group;
    const auto head_of = [&](int i) { return kv * p.group + i / see; };
    const auto query_of = [&](int i) { return (tile + i % see) * kTile; };
    const auto copy_queries = [&](int i) {
      p.copy(team, p.a.q, batch, head_of(i), tile + i % see, tile_at(scratch, 2 + i % 2));
      p.copy(team, p.a.dout, batch, head_of(i), tile + i % see, tile_at(scratch, 4 + i % 2));
    };
    Ahead ahead;
    copy_queries(0);
    detail::end_group();
    load(team, batch, head_of(0), query_of(0), ahead);
    KeyState states[kOwnWarps];
    for (KeyState& s : states) clear<kWidth / 8>(s.dk), clear<kWidth / 8>(s.dv);
    for (int i = 0; i < steps; ++i) {
      store(team, ahead, rows_at(scratch, i % 2));
      if (i + 1 < steps) {
        copy_queries(i + 1);
        load(team, batch, head_of(i + 1), query_of(i + 1), ahead);
      }
      detail::end_group();
      detail::wait_for_groups<1>();
      team.team_barrier();
      each_warp(team, [&](const Warp& warp, int w) {
        for (int part = 0; part < kTile / kPart; ++part)
          key_step(warp, tile_at(scratch, 0), tile_at(scratch, 1), tile_at(scratch, 2 + i % 2),
                   tile_at(scratch, 4 + i % 2), rows_at(scratch, i % 2), tile * kTile, query_of(i), part * kPart,
                   states[w]);
      });
      team.team_barrier();
    }
    each_warp(team, [&](const Warp& warp, int w) {
      p.write(
          warp, states[w].dk, [&](int, int) { return p.scale; }, tile_at(scratch, 0), p.a.dk, batch, kv, tile);
      p.write(
          warp, states[w].dv, [](int, int) { return 1.0f; }, tile_at(scratch, 1), p.a.dv, batch, kv, tile);
    });
  }

  // Scores of the warp's keys (rows) and kPart queries from `column` of their tile.
  KOKKOS_FUNCTION void key_step(const Warp& warp, const Tile<kWidth>& k, const Tile<kWidth>& v, const Tile<kWidth>& q,
                                const Tile<kWidth>& dout, const Rows& of, std::int64_t key, std::int64_t query,
                                int column, KeyState& s) const {
    constexpr int kBlocks = kPart / 8;
    const std::int64_t first_key = key + warp.row(), first_query = query + column;
    Pairs pairs{first_key > first_query ? int(first_key - first_query) / 16 : 0, 0};
    while (pairs.end < kPart / 16 && of.start[column + 16 * pairs.end] <= first_key + 15) ++pairs.end;
    if (pairs.first >= pairs.end) return;
    const bool partial = first_query < first_key + 15 || of.start[column + kPart - 1] > first_key;
    Sums<kBlocks> x, dx;
    multiply_rows<kBlocks>(warp, k, q, column, pairs, x);
    multiply_rows<kBlocks>(warp, v, dout, column, pairs, dx);
    for (int o = 0; o < kOwnLanes; ++o) {
      MYLOS_UNROLLED
      for (int n = 0; n < kBlocks; ++n)
        for (int e = 0; e < 2; ++e) {
          const int c = column + 8 * n + warp.lane(o) % 4 * 2 + e;
          const float lse = of.lse[c], delta = of.delta[c];
          const std::int64_t start = of.start[c];
          for (int half = 0; half < 2; ++half) {
            const std::int64_t row = key + row_of(warp, o, half);
            float &score = x[o][n][2 * half + e], &gradient = dx[o][n][2 * half + e];
            const bool seen = !partial || (row <= query + c && row >= start);
            score = seen ? exp2_of(score * p.scale * kLog2e - lse) : 0.0f;
            gradient = score * (gradient - delta);
          }
        }
    }
    add_rows<kBlocks>(warp, x, dout, column, pairs, s.dv);
    add_rows<kBlocks>(warp, dx, q, column, pairs, s.dk);
  }
};

template <int kWidth>
void run(const Stream& stream, const Arguments& a) {
  const Problem<kWidth> p(a);
  const AttentionShape& s = a.shape;
  const std::int64_t rows = s.batch * s.sequence * s.heads, each = Delta<kWidth>::kRows;
  launch<1>(stream, "mylos::attention::tiles_backward_delta", (rows + each - 1) / each, 0, Delta<kWidth>{p});
  const std::int64_t key_teams = s.batch * s.kv_heads * p.tiles, query_teams = s.batch * s.heads * p.tiles;
  launch<kWidth == 64 ? 3 : 2>(stream, "mylos::attention::tiles_backward", key_teams + query_teams,
                               Backward<kWidth>::kScratch, Backward<kWidth>{p, int(key_teams)});
}

}  // namespace

void backward(const Stream& stream, const Arguments& a) {
  a.shape.head_size == 64 ? run<64>(stream, a) : run<128>(stream, a);
}

}  // namespace mylos::kernels::attention::tiles
