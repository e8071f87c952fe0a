// The positions of each token in their order. On a CPU a counting sort; on a GPU each position takes a place in its token's
// list by an integer addition whose order is left to chance, and then its rank in the list, which is not. Neither allocates.
#include <algorithm>

#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels::device {

std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t vocabulary) {
  if constexpr (kOnGpu) return std::int64_t(sizeof(std::int32_t)) * (2 * vocabulary + 4 * tokens + 2);
  return std::int64_t(sizeof(std::uint64_t)) * (tokens + vocabulary + 1);
}

void sort_tokens(const Tensor& tokens, std::int64_t vocabulary, std::uint64_t* order) {
  const std::int64_t n = tokens.extent(0);
  const std::int32_t* token = tokens.as<std::int32_t>();
  std::int64_t* next = reinterpret_cast<std::int64_t*>(order + n);
  std::fill_n(next, vocabulary + 1, std::int64_t(0));
  for (std::int64_t i = 0; i < n; ++i) ++next[token[i] + 1];
  for (std::int64_t v = 0; v < vocabulary; ++v) next[v + 1] += next[v];
  for (std::int64_t i = 0; i < n; ++i) order[next[token[i]]++] = std::uint64_t(token[i]) << 32 | std::uint64_t(i);
}

Occurrences group_tokens(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, std::int32_t* workspace) {
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  const std::int64_t n = tokens.extent(0);
  const Policy positions(exec_of(stream), 0, n);
  const std::int32_t* token = tokens.as<std::int32_t>();
  std::int32_t *by_token = workspace, *by_position = workspace + 2 * vocabulary;
  const Occurrences o{by_token,
                      by_token + vocabulary,
                      by_position,
                      by_position + n,
                      by_position + 2 * n,
                      by_position + 3 * n,
                      by_position + 4 * n,
                      by_position + 4 * n + 1};
  Kokkos::parallel_for(
      "mylos::embedding::backward_clear", positions, KOKKOS_LAMBDA(std::int64_t i) {
        o.count[token[i]] = 0;
        if (i == 0) *o.used = *o.frequent_used = 0;
      });
  Kokkos::parallel_for(
      "mylos::embedding::backward_count", positions,
      KOKKOS_LAMBDA(std::int64_t i) { o.arrival[i] = Kokkos::atomic_fetch_add(o.count + token[i], 1); });
  Kokkos::parallel_for(
      "mylos::embedding::backward_reserve", positions, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int32_t count = o.count[token[i]];
        if (count == 1 || o.arrival[i] != 0) return;
        o.start[token[i]] = Kokkos::atomic_fetch_add(o.used, count);
        if (count > Occurrences::kFew) o.frequent[Kokkos::atomic_fetch_add(o.frequent_used, 1)] = token[i];
      });
  Kokkos::parallel_for(
      "mylos::embedding::backward_place", positions, KOKKOS_LAMBDA(std::int64_t i) {
        if (o.count[token[i]] > 1) o.unordered[o.start[token[i]] + o.arrival[i]] = std::int32_t(i);
      });
  // Every position beside every other of its token: below some 200,000 occurrences of one token this takes less time than to
  // add up their rows.
  Kokkos::parallel_for(
      "mylos::embedding::backward_order", positions, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int32_t count = o.count[token[i]];
        if (count == 1) return;
        const std::int32_t start = o.start[token[i]];
        const std::int32_t* list = o.unordered + start;
        constexpr int kAhead = 16;
        std::int32_t rank = 0;
        for (std::int32_t e = 0; e < count; e += kAhead)
          for (int j = 0; j < kAhead; ++j) rank += e + j < count && list[e + j] < i ? 1 : 0;
        o.order[start + rank] = std::int32_t(i);
      });
  return o;
}

}  // namespace mylos::kernels::device
