// The portable provider. Forward: a team a tile of queries, walking over its tiles of keys. Backward recomputes the
// scores twice instead of adding with atomics: a team a tile of keys for dk and dv, then a team a tile of queries for
// dq.
#include <cmath>

#include "base/error.hpp"
#include "kernels/attention/providers.hpp"
#include "kernels/attention/team_tiles.hpp"

namespace mylos::kernels::attention::portable {
namespace {

template <class T>
struct Problem {
  Arguments a;
  int tiles, group, width;
  float scale;
  float* delta;  // [B, H, S]

  explicit Problem(const Arguments& arguments)
      : a(arguments),
        tiles(int((a.shape.sequence + kTile - 1) / kTile)),
        group(int(a.shape.heads / a.shape.kv_heads)),
        width(int(a.shape.head_size)),
        scale(float(1.0 / std::sqrt(double(a.shape.head_size)))),
        delta(static_cast<float*>(a.workspace)) {}

  KOKKOS_FUNCTION T* at(const Window& w, std::int64_t batch, std::int64_t head, std::int64_t token) const {
    return static_cast<T*>(w.data) + batch * w.batch + head * w.head + token * w.token;
  }
  KOKKOS_FUNCTION int count(std::int64_t tile) const {
    const std::int64_t left = a.shape.sequence - tile * kTile;
    return left < kTile ? int(left) : kTile;
  }
  KOKKOS_FUNCTION Rows<T> rows(const Window& w, std::int64_t batch, std::int64_t head, std::int64_t tile) const {
    return {at(w, batch, head, tile * kTile), w.token, count(tile), width};
  }
  KOKKOS_FUNCTION std::int64_t first_key(std::int64_t batch, std::int64_t query) const {
    return a.document_start == nullptr ? 0 : a.document_start[batch * a.shape.sequence + query];
  }
  KOKKOS_FUNCTION bool sees(std::int64_t batch, std::int64_t query, std::int64_t key) const {
    return query < a.shape.sequence && key <= query && key >= first_key(batch, query);
  }
  KOKKOS_FUNCTION std::int64_t line(std::int64_t batch, std::int64_t head) const {
    return (batch * a.shape.heads + head) * a.shape.sequence;
  }
};

constexpr int kForwardFloats = 2 * kTile * kPitch + kTile * kScorePitch + 4 * kTile + 3 * kTile;
constexpr int kBackwardFloats = 2 * kTile * kPitch + kTile * kScorePitch;

KOKKOS_FUNCTION inline float* scratch(const Team& team, int floats) {
  constexpr int level = kScratchLevel;
  return static_cast<float*>(team.team_scratch(level).get_shmem(std::size_t(floats) * sizeof(float)));
}

template <class T, int kWidth>
struct Forward {
  Problem<T> p;

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t tile = p.tiles - 1 - team.league_rank() % p.tiles;  // the longest rows first
    const std::int64_t head = team.league_rank() / p.tiles % p.a.shape.heads,
                       batch = team.league_rank() / p.tiles / p.a.shape.heads;
    const std::int64_t kv = head / p.group, query = tile * kTile;
    float* const x = scratch(team, kForwardFloats);
    float* const y = x + kTile * kPitch;
    float* const scores = y + kTile * kPitch;
    float* const partial = scores + kTile * kScorePitch;  // [4, 64]: over a quarter of the keys
    float *const maximum = partial + 4 * kTile, *const sum = maximum + kTile, *const shrink = sum + kTile;
    for (int r = team.team_rank(); r < kTile; r += kThreads) {
      maximum[r] = -3.402823466e38f;
      sum[r] = 0.0f;
    }
    Sums<kWidth> out;
    clear<kWidth>(out);
    Scores s;
    for (std::int64_t j = p.first_key(batch, query) / kTile; j <= tile; ++j) {
      score_product(team, p.rows(p.a.q, batch, head, tile), p.rows(p.a.k, batch, kv, j), x, y, s);
      for (int o = 0; o < kOwn; ++o) {
        const int place = team.team_rank() + o * kThreads, ty = place / 16, tx = place % 16;
        for (int i = 0; i < 4; ++i)
          for (int c = 0; c < 4; ++c) {
            const int r = ty + 16 * i, k = tx + 16 * c;
            scores[r * kScorePitch + k] = p.sees(batch, query + r, j * kTile + k) ? s[o][i][c] * p.scale : -INFINITY;
          }
      }
      team.team_barrier();
      softmax(team, scores, partial, maximum, sum, shrink);
      for (int o = 0; o < kOwn; ++o) {
        const int ty = (team.team_rank() + o * kThreads) / 16;
        for (int i = 0; i < 4; ++i)
          for (int c = 0; c < kWidth / 16; ++c) out[o][i][c] *= shrink[ty + 16 * i];
      }
      add_product<kWidth>(team, scores, kScorePitch, 1, p.rows(p.a.v, batch, kv, j), x, out);
    }
    write_sums<kWidth>(team, out, p.at(p.a.out, batch, head, query), p.a.out.token, p.count(tile), p.width,
                       [&](int r) { return 1.0f / sum[r]; });
    for (int r = team.team_rank(); r < p.count(tile); r += kThreads)
      p.a.lse[p.line(batch, head) + query + r] = maximum[r] + Kokkos::log(sum[r]);
  }

  // Scores to probabilities relative to the running maximum; four places share a row.
  KOKKOS_FUNCTION void softmax(const Team& team, float* scores, float* partial, float* maximum, float* sum,
                               float* shrink) const {
    constexpr int kQuarter = kTile / 4;
    for (int e = team.team_rank(); e < 4 * kTile; e += kThreads) {
      const float* s = scores + e % kTile * kScorePitch + e / kTile * kQuarter;
      float m = s[0];
      for (int k = 1; k < kQuarter; ++k) m = s[k] > m ? s[k] : m;
      partial[e] = m;
    }
    team.team_barrier();
    for (int r = team.team_rank(); r < kTile; r += kThreads) {
      float m = maximum[r];
      for (int quarter = 0; quarter < 4; ++quarter)
        m = partial[quarter * kTile + r] > m ? partial[quarter * kTile + r] : m;
      shrink[r] = Kokkos::exp(maximum[r] - m);
      maximum[r] = m;
    }
    team.team_barrier();
    for (int e = team.team_rank(); e < 4 * kTile; e += kThreads) {
      float* s = scores + e % kTile * kScorePitch + e / kTile * kQuarter;
      float total = 0.0f;
      for (int k = 0; k < kQuarter; ++k) {
        s[k] = Kokkos::exp(s[k] - maximum[e % kTile]);
        total += s[k];
      }
      partial[e] = total;
    }
    team.team_barrier();
    for (int r = team.team_rank(); r < kTile; r += kThreads)
      sum[r] =
          sum[r] * shrink[r] + ((partial[r] + partial[kTile + r]) + (partial[2 * kTile + r] + partial[3 * kTile + r]));
  }
};

// Probabilities of a tile to scratch, and derivatives by the scores in place of those by the probabilities (dp).
template <class T>
KOKKOS_FUNCTION void softmax_gradient(const Team& team, const Problem<T>& p, std::int64_t batch, std::int64_t head,
                                      std::int64_t query, std::int64_t key, const Scores& s, Scores& dp,
                                      float* probabilities) {
  for (int o = 0; o < kOwn; ++o) {
    const int place = team.team_rank() + o * kThreads, ty = place / 16, tx = place % 16;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t q = query + ty + 16 * i;
      const bool real = q < p.a.shape.sequence;
      const float lse = real ? p.a.lse[p.line(batch, head) + q] : 0.0f,
                  delta = real ? p.delta[p.line(batch, head) + q] : 0.0f;
      for (int c = 0; c < 4; ++c) {
        const int k = tx + 16 * c;
        const float probability = p.sees(batch, q, key + k) ? Kokkos::exp(s[o][i][c] * p.scale - lse) : 0.0f;
        probabilities[(ty + 16 * i) * kScorePitch + k] = probability;
        dp[o][i][c] = probability * (dp[o][i][c] - delta);
      }
    }
  }
}

KOKKOS_FUNCTION inline void store_scores(const Team& team, const Scores& s, float* to) {
  for (int o = 0; o < kOwn; ++o) {
    const int place = team.team_rank() + o * kThreads, ty = place / 16, tx = place % 16;
    for (int i = 0; i < 4; ++i)
      for (int c = 0; c < 4; ++c) to[(ty + 16 * i) * kScorePitch + tx + 16 * c] = s[o][i][c];
  }
}

template <class T, int kWidth>
struct BackwardKeys {
  Problem<T> p;

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t tile = team.league_rank() % p.tiles, kv = team.league_rank() / p.tiles % p.a.shape.kv_heads;
    const std::int64_t batch = team.league_rank() / p.tiles / p.a.shape.kv_heads, key = tile * kTile;
    float* const x = scratch(team, kBackwardFloats);
    float* const y = x + kTile * kPitch;
    float* const scores = y + kTile * kPitch;
    Sums<kWidth> dk, dv;
    clear<kWidth>(dk);
    clear<kWidth>(dv);
    Scores s, ds;
    const Rows<T> k = p.rows(p.a.k, batch, kv, tile), v = p.rows(p.a.v, batch, kv, tile);
    for (std::int64_t head = kv * p.group; head < (kv + 1) * p.group; ++head)
      for (std::int64_t j = tile; j < p.tiles && p.first_key(batch, j * kTile) < key + kTile; ++j) {
        const Rows<T> q = p.rows(p.a.q, batch, head, j), dout = p.rows(p.a.dout, batch, head, j);
        score_product(team, q, k, x, y, s);
        score_product(team, dout, v, x, y, ds);
        softmax_gradient(team, p, batch, head, j * kTile, key, s, ds, scores);
        add_product<kWidth>(team, scores, 1, kScorePitch, dout, x, dv);
        store_scores(team, ds, scores);
        add_product<kWidth>(team, scores, 1, kScorePitch, q, x, dk);
      }
    const float scale = p.scale;
    write_sums<kWidth>(team, dk, p.at(p.a.dk, batch, kv, key), p.a.dk.token, p.count(tile), p.width,
                       [=](int) { return scale; });
    write_sums<kWidth>(team, dv, p.at(p.a.dv, batch, kv, key), p.a.dv.token, p.count(tile), p.width,
                       [](int) { return 1.0f; });
  }
};

template <class T, int kWidth>
struct BackwardQueries {
  Problem<T> p;

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t tile = p.tiles - 1 - team.league_rank() % p.tiles;
    const std::int64_t head = team.league_rank() / p.tiles % p.a.shape.heads,
                       batch = team.league_rank() / p.tiles / p.a.shape.heads;
    const std::int64_t kv = head / p.group, query = tile * kTile;
    float* const x = scratch(team, kBackwardFloats);
    float* const y = x + kTile * kPitch;
    float* const scores = y + kTile * kPitch;
    Sums<kWidth> dq;
    clear<kWidth>(dq);
    Scores s, ds;
    for (std::int64_t j = p.first_key(batch, query) / kTile; j <= tile; ++j) {
      const Rows<T> k = p.rows(p.a.k, batch, kv, j);
      score_product(team, p.rows(p.a.q, batch, head, tile), k, x, y, s);
      score_product(team, p.rows(p.a.dout, batch, head, tile), p.rows(p.a.v, batch, kv, j), x, y, ds);
      softmax_gradient(team, p, batch, head, query, j * kTile, s, ds, scores);
      store_scores(team, ds, scores);
      add_product<kWidth>(team, scores, kScorePitch, 1, k, x, dq);
    }
    const float scale = p.scale;
    write_sums<kWidth>(team, dq, p.at(p.a.dq, batch, head, query), p.a.dq.token, p.count(tile), p.width,
                       [=](int) { return scale; });
  }
};

template <class F>
void launch(const Stream& stream, const char* label, std::int64_t teams, int floats, const F& kernel) {
  check_plain(teams < (std::int64_t(1) << 31), "attention: more than 2^31 tiles in one call; use a smaller batch");
  Policy policy(exec_of(stream), int(teams), kThreads);
  policy.set_scratch_size(kScratchLevel, Kokkos::PerTeam(int(floats * sizeof(float))));
  Kokkos::parallel_for(label, as_arguments(policy), kernel);
}

template <class T, int kWidth>
void forward_width(const Stream& stream, const Arguments& a) {
  const Problem<T> p(a);
  launch(stream, "mylos::attention::forward", a.shape.batch * a.shape.heads * p.tiles, kForwardFloats,
         Forward<T, kWidth>{p});
}

template <class T, int kWidth>
void backward_width(const Stream& stream, const Arguments& a) {
  const Problem<T> p(a);
  const AttentionShape& s = a.shape;
  Kokkos::parallel_for(
      "mylos::attention::backward_delta",
      as_arguments(Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>(exec_of(stream), 0,
                                                                              s.batch * s.heads * s.sequence)),
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t token = i % p.a.shape.sequence, head = i / p.a.shape.sequence % p.a.shape.heads;
        const std::int64_t batch = i / p.a.shape.sequence / p.a.shape.heads;
        const T *o = p.at(p.a.out, batch, head, token), *d = p.at(p.a.dout, batch, head, token);
        float sum = 0.0f;
        for (int c = 0; c < p.width; ++c) sum += float(o[c]) * float(d[c]);
        p.delta[i] = sum;
      });
  launch(stream, "mylos::attention::backward_keys", s.batch * s.kv_heads * p.tiles, kBackwardFloats,
         BackwardKeys<T, kWidth>{p});
  launch(stream, "mylos::attention::backward_queries", s.batch * s.heads * p.tiles, kBackwardFloats,
         BackwardQueries<T, kWidth>{p});
}

template <class T>
void run(const Stream& stream, const Arguments& a, bool backward) {
  const std::int64_t h = a.shape.head_size;  // registers hold the head size rounded up to one of these
  if (h <= 64)
    backward ? backward_width<T, 64>(stream, a) : forward_width<T, 64>(stream, a);
  else if (h <= 128)
    backward ? backward_width<T, 128>(stream, a) : forward_width<T, 128>(stream, a);
  else
    backward ? backward_width<T, 256>(stream, a) : forward_width<T, 256>(stream, a);
}

}  // namespace

std::int64_t workspace_bytes(const AttentionShape& shape, bool backward) {
  return backward ? shape.batch * shape.heads * shape.sequence * std::int64_t(sizeof(float)) : 4;
}

void forward(const Stream& stream, const Arguments& a) {
  a.dtype == DType::bf16 ? run<bf16>(stream, a, false) : run<float>(stream, a, false);
}
void backward(const Stream& stream, const Arguments& a) {
  a.dtype == DType::bf16 ? run<bf16>(stream, a, true) : run<float>(stream, a, true);
}

}  // namespace mylos::kernels::attention::portable
