// Kernels that need a sum over each row (norms), from one functor for CPU and GPU.
//
//   struct Body {
//     template <class Row>
//     KOKKOS_FUNCTION void operator()(const Row& row, std::int64_t r) const {
//       const float total = row.sum(width, [&](auto w, std::int64_t i) { ... sum of the w() elements from i ... });
//       row.each(width, [&](auto w, std::int64_t i) { ... the w() elements from i ... });
//       row.once([&] { ... });
//       // Or both at once, for values that are read from memory but once: value = load(w, i), total = the sum of
//       // part(value), result = finish(total), then use(w, i, value, result). Values stay in a GPU's registers.
//       row.sum_and_use(width, load, part, finish, use);
//       row.load_and_use(width, load, use);  // without a sum: use(w, i, load(w, i)), several loads under way at a time
//     }
//   };
//   for_each_row<8>(exec, "mylos::rms_norm::forward", rows, width, vector, Body{...});
//
// A row is worked on by one CPU thread, by a GPU team of 128 to 512 threads, or, when it is short, by 1 to 32 lanes of
// a warp, so that a team has many rows. The order of each sum is fixed by the width alone: the same bits in every run.
#pragma once

#include <algorithm>

#include "base/error.hpp"
#include "kernels/detail/for_each.hpp"

namespace mylos::kernels {

using TeamPolicy = Kokkos::TeamPolicy<Exec>;
using Member = TeamPolicy::member_type;

// Rows of a [N, D] or [T, H, h] tensor whose rows may be strided.
template <class T>
struct RowsOf {
  T* data = nullptr;
  std::int64_t outer = 0, inner = 0, inner_count = 1;

  RowsOf() = default;
  explicit RowsOf(const Tensor& t) : data(static_cast<T*>(t.data())), outer(t ? t.stride(0) : 0) {
    if (t.rank() == 3) {
      inner = t.stride(1);
      inner_count = t.extent(1);
    }
  }
  KOKKOS_FUNCTION T* row(std::int64_t r) const {
    if (inner_count == 1) return data + r * outer;
    const std::int64_t o = quotient(r, inner_count);
    return data + o * outer + (r - o * inner_count) * inner;
  }
};

[[maybe_unused]] constexpr int kKept = 4;  // packs that a GPU thread keeps between the passes of sum_and_use

struct CpuRow {
  template <class F>
  float sum(std::int64_t n, const F& f) const {
    // Independent partial sums, spelled out: vectorised without leave to reorder, so the result never depends on
    // alignment.
    constexpr int kLanes = 64;
    float partial[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      MYLOS_SIMD
      for (int k = 0; k < kLanes; ++k) partial[k] += f(Width<1>{}, i + k);
    }
    float tail = 0.0f;
    for (; i < n; ++i) tail += f(Width<1>{}, i);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) partial[k] += partial[k + half];
    return partial[0] + tail;
  }
  template <class F>
  void each(std::int64_t n, const F& f) const {
    MYLOS_SIMD
    for (std::int64_t i = 0; i < n; ++i) f(Width<1>{}, i);
  }
  template <class F>
  void once(const F& f) const {
    f();
  }
  template <class Load, class Part, class Finish, class Use>
  void sum_and_use(std::int64_t n, const Load& load, const Part& part, const Finish& finish, const Use& use) const {
    const auto result = finish(sum(n, [&](auto pack, std::int64_t i) { return part(load(pack, i)); }));
    each(n, [&](auto pack, std::int64_t i) { use(pack, i, load(pack, i), result); });
  }
  template <class Load, class Use>
  void load_and_use(std::int64_t n, const Load& load, const Use& use) const {
    each(n, [&](auto pack, std::int64_t i) { use(pack, i, load(pack, i)); });
  }
};

template <int W>
struct TeamRow {
  const Member& member;

  template <class F>
  KOKKOS_FUNCTION float sum(std::int64_t n, const F& f) const {
    float s = 0.0f;
    for (std::int64_t i = member.team_rank() * W; i < n; i += member.team_size() * W) s += f(Width<W>{}, i);
    member.team_reduce(Kokkos::Sum<float>(s));
    return s;
  }
  template <class F>
  KOKKOS_FUNCTION void each(std::int64_t n, const F& f) const {
    for (std::int64_t i = member.team_rank() * W; i < n; i += member.team_size() * W) f(Width<W>{}, i);
  }
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    if (member.team_rank() == 0) f();
  }
  template <class Load, class Part, class Finish, class Use>
  KOKKOS_FUNCTION void sum_and_use(std::int64_t n, const Load& load, const Part& part, const Finish& finish,
                                   const Use& use) const {
    using Value = decltype(load(Width<W>{}, n));
    const std::int64_t first = std::int64_t(member.team_rank()) * W, step = std::int64_t(member.team_size()) * W;
    Value kept[kKept];
    for (int j = 0; j < kKept; ++j)
      if (first + j * step < n) kept[j] = load(Width<W>{}, first + j * step);
    float s = 0.0f;
    for (int j = 0; j < kKept; ++j)
      if (first + j * step < n) s += part(kept[j]);
    for (std::int64_t i = first + kKept * step; i < n; i += step) s += part(load(Width<W>{}, i));
    member.team_reduce(Kokkos::Sum<float>(s));
    const auto result = finish(s);
    for (int j = 0; j < kKept; ++j)
      if (first + j * step < n) use(Width<W>{}, first + j * step, kept[j], result);
    for (std::int64_t i = first + kKept * step; i < n; i += step) use(Width<W>{}, i, load(Width<W>{}, i), result);
  }
  template <class Load, class Use>
  KOKKOS_FUNCTION void load_and_use(std::int64_t n, const Load& load, const Use& use) const {
    using Value = decltype(load(Width<W>{}, n));
    const std::int64_t step = std::int64_t(member.team_size()) * W;
    for (std::int64_t first = std::int64_t(member.team_rank()) * W; first < n; first += kKept * step) {
      Value kept[kKept];
      for (int j = 0; j < kKept; ++j)
        if (first + j * step < n) kept[j] = load(Width<W>{}, first + j * step);
      for (int j = 0; j < kKept; ++j)
        if (first + j * step < n) use(Width<W>{}, first + j * step, kept[j]);
    }
  }
};

template <int W>
struct LaneRow {
  const Member& member;
  int lanes;

  template <class F>
  KOKKOS_FUNCTION float sum(std::int64_t n, const F& f) const {
    float total = 0.0f;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(member, int(n / W)),
        [&](int i, float& s) { s += f(Width<W>{}, std::int64_t(i) * W); }, total);
    return total;
  }
  template <class F>
  KOKKOS_FUNCTION void each(std::int64_t n, const F& f) const {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, int(n / W)),
                         [&](int i) { f(Width<W>{}, std::int64_t(i) * W); });
  }
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerThread(member), [&] { f(); });
  }
  // A lane has at most kKept packs: longer rows are a team's.
  template <class Load, class Part, class Finish, class Use>
  KOKKOS_FUNCTION void sum_and_use(std::int64_t n, const Load& load, const Part& part, const Finish& finish,
                                   const Use& use) const {
    using Value = decltype(load(Width<W>{}, n));
    Value kept[kKept];
    float total = 0.0f;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(member, lanes),
        [&](int lane, float& s) {
          for (int j = 0; j < kKept; ++j)
            if ((lane + j * lanes) * W < n) kept[j] = load(Width<W>{}, std::int64_t(lane + j * lanes) * W);
          for (int j = 0; j < kKept; ++j)
            if ((lane + j * lanes) * W < n) s += part(kept[j]);
        },
        total);
    const auto result = finish(total);
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, lanes), [&](int lane) {
      for (int j = 0; j < kKept; ++j)
        if ((lane + j * lanes) * W < n) use(Width<W>{}, std::int64_t(lane + j * lanes) * W, kept[j], result);
    });
  }
  template <class Load, class Use>
  KOKKOS_FUNCTION void load_and_use(std::int64_t n, const Load& load, const Use& use) const {
    each(n, [&](auto pack, std::int64_t i) { use(pack, i, load(pack, i)); });
  }
};

namespace detail {

template <int W, class Body>
struct TeamPerRow {
  Body body;
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    body(TeamRow<W>{member}, std::int64_t(member.league_rank()));
  }
};

template <int W, class Body>
struct LanesPerRow {
  Body body;
  std::int64_t rows;
  int lanes;
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t r = std::int64_t(member.league_rank()) * member.team_size() + member.team_rank();
    if (r < rows) body(LaneRow<W>{member, lanes}, r);
  }
};

template <int W, class Body>
void rows_on_gpu(const Exec& exec, const char* label, std::int64_t rows, std::int64_t width, const Body& body) {
  const std::int64_t packs = width / W;
  if (packs <= 32 * kKept) {
    int lanes = 1;
    while (lanes < packs && lanes < 32) lanes *= 2;
    const std::int64_t rows_per_team = 256 / lanes;
    Kokkos::parallel_for(label,
                         TeamPolicy(exec, int((rows + rows_per_team - 1) / rows_per_team), int(rows_per_team), lanes),
                         LanesPerRow<W, Body>{body, rows, lanes});
  } else {
    const int team = packs <= 128 * kKept ? 128 : packs <= 256 * kKept ? 256 : 512;
    Kokkos::parallel_for(label, TeamPolicy(exec, int(rows), team), TeamPerRow<W, Body>{body});
  }
}

}  // namespace detail

// vector: width is a multiple of W and every row is aligned.
template <int W, class Body>
void for_each_row(const Exec& exec, const char* label, std::int64_t rows, std::int64_t width, bool vector,
                  const Body& body) {
  if (rows == 0 || width == 0) return;
  check_plain(rows < (std::int64_t(1) << 31), "a row kernel has at most 2^31 - 1 rows; split the batch");
  if constexpr (kOnGpu) {
    if (vector) {
      detail::rows_on_gpu<W>(exec, label, rows, width, body);
    } else {
      detail::rows_on_gpu<1>(exec, label, rows, width, body);
    }
  } else {
    using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(label, Policy(exec, 0, rows), [=](std::int64_t r) { body(CpuRow{}, r); });
  }
}

}  // namespace mylos::kernels
